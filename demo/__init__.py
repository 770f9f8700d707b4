"""A shop in a terminal: `make demo`."""
