"""Upkeep: the work between the flushes. Retention, seals, cleaning, and giving space back."""
