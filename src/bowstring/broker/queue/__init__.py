"""Queues: subscriptions of topics, the consumers that share them, and the leases by which these hold
messages. What a subscription has done is in the ledgers of its partitions (`core.ledger`); here is
who is connected, who gets what, and how it goes out.
"""
