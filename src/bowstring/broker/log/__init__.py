"""The log: who may change a partition, how changes become durable, and how they come back at load."""
