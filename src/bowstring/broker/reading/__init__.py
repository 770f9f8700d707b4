"""Reading: finds stored messages, decides which rows may be delivered, and serves the streams of
readers.
"""
