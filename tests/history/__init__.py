"""What clients saw, and whether a broker that keeps its promises could have shown them that.

`events` is the one format of a history, JSON lines, written by the clients of the simulation and by those of real processes alike, never
by the broker. `facts` sorts a history by message, by partition and by reader; `checkers` has one small function per promise. Nothing here
imports the product: a checker that shares code with what it checks shares its mistakes.
"""
