"""Upkeep: what happens beside the flushes. Retention, seal, cleaning, and giving space back."""
