"""The log: changes a partition, makes the changes durable, and brings them back at load."""
