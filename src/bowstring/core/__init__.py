"""Pure machines: events and `now` go in, decisions and changes come out. No clock, no file, no await, no pyarrow.

Read `changes` first (everything durable is one), then `partition`, the machine that owns a partition's log, and the three parts that
it is made of: `producers` (batches recognised by producer and number), `natural_ids` (messages recognised by the caller's id) and
`deletions`. `pages` is the index of what is committed, `credit` the budget of bytes.
"""
