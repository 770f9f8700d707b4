"""The kit: what a program that sends and reads messages holds in its hands.

It is written once, for asyncio, against the ports: clock, randomness and transport are handed in, so the simulation runs this very
code. `bowstring.aio` is its face; `sync` is the thin face over one loop thread that `bowstring.connect` gives.

    addresses    where brokers are                 connection   the way to them; broker_time: what their clock shows
    client       connect, topics, and the rest's maker   (info, topics, statistics: the values that it gives)
    sync         the other face                    sync_producer, sync_reader
    arguments    what people may give to send      frames       what they may give to send_batch
    outgoing     a batch on its way, from its first row to its answer
    sending      send(): gathers rows into batches, from any thread, without a lock
    gathering    the open batches                  waiting      what was sent before the partitions were known
    publishing   carries batches to the broker: pipelined (window), in order (lanes), resent after a break
    producer     both together                     receipts     what became of a message
    reader       follows the log                   fetching     its stream
    batch        rows as Arrow columns             message      one of them     kept_page    both, pickled
"""
