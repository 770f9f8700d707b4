"""Queues: consuming beside the peers, delivery, fairness, memory, expiry, and what flushes of
settlements cost. `rounds` plans it, `bars` judges.
"""
