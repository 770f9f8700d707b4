"""The real machine behind the ports: its clock, its randomness, its threads, its disk.

Nothing else in the source reads a clock, draws a random number, starts a thread or opens a file.
"""
