"""Spark reading topics, held against Spark reading the same rows as Parquet."""
