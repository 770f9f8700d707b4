"""Messages as they travel and rest: columns of a batch, their bytes, ids and hashes.

`schema` names the columns, `limits` says what a message is held to. `metadata` is the one way in which the head of a batch may be
written, `encoding` writes batches by it, `layout` checks what came from outside against it, with `contents` for what the columns may
hold and `diagnosis` for saying what is wrong with a head that is not ours. `conversion` makes our columns of those of other libraries.
`ids` and `hashing` are the two small agreements between kit
and broker beside the batch.

Nothing is imported here, so that `bowstring.messages.ids` and its neighbours load no more than each needs.
"""
