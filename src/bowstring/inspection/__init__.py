"""A data directory looked at from outside, while nobody serves it: what is in it, whether it is whole, and what can be done if not.

`directory` is the directory as files; `contents` what its catalog says, as the broker would load it; `verifying` reads everything and
names what is damaged, with `structure` for what does not fit together; `overview` and `segment` are for people; `repairing` puts aside
what keeps a broker from starting. Nothing here writes but `repairing`.
"""
