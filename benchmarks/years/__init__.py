"""The store that lives for years: how it starts, what upkeep costs, what it writes, what it keeps. `rounds` plans it, `bars` judges."""
