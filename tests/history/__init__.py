"""Histories of what clients saw, and checkers that say whether a correct broker could have shown
it.

`events` is the one format of a history, JSON lines. The clients of the simulation and those of real
processes write it, the broker never does. `facts` sorts a history by message, by partition and by
reader; `checkers` has one small function per promise. Nothing here imports the product: a checker
that shares code with the product shares its mistakes.
"""
