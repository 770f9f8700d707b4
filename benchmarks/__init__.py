"""Measures Bowstring on this machine and compares it with Kafka: `make bench`. README.md says what
is measured, and how.
"""
