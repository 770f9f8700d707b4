"""Messages as they travel and rest: columns of a batch, their bytes, ids and hashes.

`schema` names the columns, `limits` has the limits of a message. `metadata` defines the one valid
head of a batch, `encoding` writes batches with it, and `layout` checks batches from outside against
it; `contents` checks the values of columns, and `diagnosis` explains what is wrong with a foreign
head. `conversion` turns columns of other libraries into ours. `ids` and `hashing` are two further
small agreements between kit and broker.

This package imports nothing, so that `bowstring.messages.ids` and its neighbours load no more than
each needs.
"""
