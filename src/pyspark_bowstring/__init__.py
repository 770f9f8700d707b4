"""Lets Spark find the format `bowstring` by itself: it imports every top-level module named `pyspark_…` and takes its `DefaultSource`."""

from bowstring.spark.source import Source as DefaultSource

__all__ = ["DefaultSource"]
