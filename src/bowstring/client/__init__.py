"""The kit: what a program that sends and reads messages holds in its hands.

It is written once, for asyncio, against the ports: clock, randomness and transport are arguments,
so the simulation runs this very code. `bowstring.aio` is its face; `sync` is the thin face over one
loop thread that `bowstring.connect` returns.

A message on its way out:

    producer     both halves of a producer         arguments, frames   what `send` and `send_batch` accept
    sender       send(): appends rows to open batches, from any thread, without a lock
    open_batches the open batches of a producer    open_batch, rows    one of them, and its rows
    unrouted     rows that wait until the number of partitions is known
    outbox       the loop's half: sealed batches, until each has an outcome
    sent_batch   one of them                       lane                their order in a partition
    publish_stream   the stream to one broker      window              how much is under way on it
    outcome      what became of a batch            receipts            the same for the program

And on its way in:

    reader       follows the log                   reader_settings, ranges     what it was asked for
    hand         hands rows out, one by one or as batches
    arrivals     pages that have come, and wait
    read_ahead   the same of a reader              topic_stream, fetch_credit  the streams that bring them
                                                   topic_questions             what they ask first
    pages        rows as they came                 freshness, commit_window    which of them may be handed out
    batch        rows as Arrow columns             message, kept_page          one row; both, pickled

And around both:

    client       connects, makes producers and readers         topics, positions    its calls, and the values they return
    connection   the way to a broker               addresses, routes, presence      which one, and whether it is there
    broker_time  the brokers' clock                statistics                       figures
    sync, sync_producer, sync_hand, sync_reader   the face without await
    topic_watch, backup   what only commands use
"""
