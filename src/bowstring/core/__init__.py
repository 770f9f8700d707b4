"""Pure machines: events and `now` go in, decisions and changes come out. No clock, no file, no
await, no pyarrow.

Read `changes` first (all durable state is made of them), then `partition`, the machine that owns a
partition's log, and its three parts: `producers` (batches recognised by producer and number),
`natural_ids` (messages recognised by the caller's id) and `deletions`. `pages` is the index of
committed pages, `credit` the budget of bytes.
"""
