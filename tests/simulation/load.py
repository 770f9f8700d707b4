"""What clients do to a broker in one seed, and how that broker is set: drawn as the faults are, and printed as they are.

Everything is small, so that borders are common: segments of 64 KiB roll and are recycled within seconds, half of the flushes are too
large for the journal, caches hold a few pages, and a few producers fill the memory that is there for publishing.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, replace

from bowstring.broker.tuning import Tuning
from bowstring.settings import Settings

KIB = 1024


@dataclass(frozen=True)
class Load:
    """The work of one seed."""

    seconds: float = 30.0
    """How long clients go on, and faults happen, before the world heals."""
    topics: int = 3
    brief_topics: int = 0
    """Topics that keep messages for `retention_seconds` only."""
    retention_seconds: float = 3.0
    sized_topics: int = 0
    """Topics that keep `retention_bytes` only."""
    retention_bytes: int = 256 * KIB
    window_seconds: float = 600.0
    """For how long ids are known, at most as long as messages are kept."""
    alter_every: float = 0.0
    """The mean time between two changes of a topic's settings."""
    expiring: float = 0.0
    """The share of messages that expire within seconds; `delayed` that of those with a due time: past, near or far."""
    delayed: float = 0.0
    attributed: float = 0.0
    mortal_topics: int = 1
    """Further topics that are deleted and made anew all the time."""
    mortal_seconds: float = 4.0
    """The mean time between two deletions."""
    partitions_max: int = 3
    producers: int = 4
    """Client processes that send; each has several producers of the kit, one after the other."""
    readers: int = 2
    brink: float = 0.0
    """The share of their sessions that begin at the oldest messages, which retention takes next."""
    named: int = 0
    """Client processes that read under a name, and commit; `filtered` is the share of their sessions that have a filter."""
    filtered: float = 0.4
    forgets: float = 0.0
    """The share of their sessions that begin with deleting the position."""
    slow: int = 0
    """Client processes that read so slowly that most of what they get was sent long before."""
    observers: int = 0
    """Client processes that look at the positions of others."""
    plain: float = 0.2
    """The share of clients with the plain kit instead of the real one."""
    pause_seconds: float = 0.05
    """The mean time between two sends of a process."""
    under_way_max: int = 30
    """Sends of a process without an answer."""
    batch_rows_max: int = 12
    batches: float = 0.4
    """The share of sends that are a whole batch."""
    natural: float = 0.5
    """The share of messages with an id of their own, from a pool of `ids`."""
    ids: int = 40
    keyed: float = 0.5
    repeats: float = 0.6
    """The share of failed messages that are sent again under their id."""
    tight: float = 0.3
    """The share of sends that have little time."""
    tight_seconds: float = 0.3
    timeout_seconds: float = 10.0
    ignored: float = 0.0
    """The share of sends whose receipt nobody looks at: `flush` and `close` have to tell what failed."""
    value_bytes: int = 200
    large: float = 0.1
    large_bytes: int = 12 * KIB
    compressed: float = 0.1
    deletes: float = 0.0
    """The share of sends after which messages are deleted that were sent before."""
    finds: float = 0.0
    """The share of sends after which a message is looked for by its id that was stored before, however long ago."""
    impatient: float = 0.0
    """The share of deletes that are given up after a few syncs, and asked again."""
    chunk_bits: int = 20
    """Deletions and kept rows are written in chunks of so many offsets, as a power of two."""
    ordered_rows: int = 4096
    """So many due rows of a partition come in the order of their due times; more are granted by offset."""
    cut_bytes: int = 64 * KIB
    """Pages of so many bytes are cut at a seal, where rows are due later than the others are kept."""
    kept_seconds: float = 60.0
    """How often rows that are kept below the floor are released."""

    stop_every: float = 0.0
    """The broker is stopped in good order, and started again."""
    usurp_every: float = 0.0
    """Another incarnation of the broker takes over while the old one does not know it."""
    isolated: float = 0.0
    """The share of these at which the old one loses its clients, so that no publish tells it."""
    backup_every: float = 0.0
    """The mean time between the end of a backup and the next."""

    consumers: int = 0
    """Client processes that consume; none, and there are no subscriptions either."""
    subscriptions: int = 1
    """Of each topic; the second begins at the latest."""
    lease_seconds: float = 2.0
    """Of the subscriptions; the share `own_leases` of consumers asks for others."""
    own_leases: float = 0.0
    credit_max: int = 30
    consume_seconds: float = 3.0
    """The mean time for which a consumer goes on."""
    work_seconds: float = 0.02
    """The mean time between what it takes and the next."""
    nacks: float = 0.1
    """The share of rows that are nacked; `rejects` of those that are rejected, `holds` of those that are
    kept until their lease is over, `extends` of those whose lease is made longer."""
    late_extends: float = 0.0
    """The share of rows that are kept which are to be made longer when their lease is just over."""
    rejects: float = 0.0
    holds: float = 0.0
    extends: float = 0.0
    masks: float = 0.5
    """The share of times at which rows are taken and settled as a batch."""
    pauses: float = 0.0
    abandons: float = 0.0
    """The share of consumers that end without a word."""
    named_consumers: float = 0.5
    """The share of them whose name is their machine's, so that they come back under it; `collisions`
    of those that all have one name."""
    collisions: float = 0.0
    plain_consumers: float = 0.3
    delete_held: float = 0.0
    """The share of times at which a consumer tries to delete what it holds."""
    amend_every: float = 0.0
    """The mean time between two changes of a subscription's settings."""
    fleeting_seconds: float = 0.0
    """The mean time between two deletions of a subscription that is made anew."""
    take_away_every: float = 0.0
    """The mean time between two times at which an operator takes leases away."""
    timed_nacks: float = 0.0
    """The share of nacks that say when the row is to come again."""
    backoff_seconds: float = 0.0
    """The first wait of the subscriptions' backoff, which grows by 3 up to 9 times that; 0 for no backoff."""
    unsettled: int = 0
    """What becomes of messages that retention reaches before the first subscription of a topic has settled them: 0 they
    are dropped, 1 they become dead letters, 2 they are kept.
    """
    keep_seconds: float = 0.0
    """For how long after that it keeps them; 0 for until they are settled."""
    redrive_every: float = 0.0
    """The mean time between two times at which an operator looks at dead letters and sends some back; 0
    for no such operator."""
    peeks: float = 0.0
    """The share of takings after which a consumer looks at what would come next; `ids_leased` is the share
    of those after which it asks for some of that by id."""
    ids_leased: float = 0.0
    cancels: float = 0.0
    """The share of sends after which a message that may not be due is cancelled; `moves` of those after which one is moved."""
    moves: float = 0.0
    deliveries: int = 0
    """How often subscriptions deliver a message at most; 0 for the default."""
    poison: float = 0.0
    """The share of messages that end the consumer which gets them without a word, with all that it holds."""
    chosen: int = 0
    """Which of the filters one more subscription of each topic has; 0 for no such one."""
    ordered: int = 0
    """1 for one more subscription of each topic, which is key-shared; 2 for one with the filter of `chosen`."""
    seek_every: float = 0.0
    """The mean time between two times at which one more subscription is set to another place; 0 for no such one."""

    inline_bytes: int = 4 * KIB
    overlap_bytes: int = 8 * KIB
    segment_bytes: int = 64 * KIB
    publish_bytes: int = 256 * KIB
    window_bytes: int = 64 * KIB
    tail_bytes: int = 32 * KIB
    pages_bytes: int = 32 * KIB
    wal_bytes: int = 64 * KIB
    seal_rows: int = 20_000
    seal_seconds: float = 600.0
    upkeep_seconds: float = 1.0
    index_bytes: int = 64 * KIB
    ids_bytes: int = 64 * KIB
    reserve_bytes: int = 64 * KIB
    small_bytes: int = KIB
    """Pages in segments that are shorter are copied together when they are sealed."""

    def __str__(self) -> str:
        return " ".join(f"{name}={value:g}" for name, value in asdict(self).items())

    def only(self, **changes: object) -> Load:
        """This, with some changed."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def settings(self) -> Settings:
        """The broker's own."""
        return Settings(
            flush_inline_bytes=self.inline_bytes,
            segment_bytes_first=self.segment_bytes,
            segment_bytes_max=4 * self.segment_bytes,
            memory_publish_bytes=self.publish_bytes,
            memory_tail_bytes=self.tail_bytes,
            memory_pages_bytes=self.pages_bytes,
            publish_window=self.window_bytes,
            seal_rows=self.seal_rows,
            seal_seconds=self.seal_seconds,
            upkeep_seconds=self.upkeep_seconds,
            memory_index_bytes=self.index_bytes,
            memory_ids_bytes=self.ids_bytes,
        )

    def tuning(self) -> Tuning:
        """Sizes that are constants in a real broker."""
        return Tuning(
            overlap_bytes=self.overlap_bytes,
            small_page_bytes=self.small_bytes,
            cut_page_bytes=self.cut_bytes,
            kept_seconds=self.kept_seconds,
            free_files_max=2,
            shared_directory=bool(self.usurp_every),
            reserve_bytes=max(self.reserve_bytes, self.wal_bytes),
        )


def drawn_load(seed: int) -> Load:
    """The work of a seed. What was added later has dice of its own, so that the rest of a seed stays what it was."""
    return _drawn_first(seed).only(
        impatient=random.Random(f"{seed}/impatient").choice((0.0, 0.3, 0.8)),
        observers=random.Random(f"{seed}/observers").choice((0, 0, 1)),
        isolated=random.Random(f"{seed}/isolated").choice((0.0, 0.5)),
        brink=random.Random(f"{seed}/brink").choice((0.0, 0.0, 0.3)),
        chunk_bits=random.Random(f"{seed}/chunks").choice((4, 7, 20)),
        ordered_rows=random.Random(f"{seed}/waves").choice((0, 5, 4096)),
        finds=random.Random(f"{seed}/finds").choice((0.0, 0.1, 0.5)),
        cut_bytes=random.Random(f"{seed}/cuts").choice((256, 1024, 64 * KIB)),
        kept_seconds=random.Random(f"{seed}/kept").choice((0.5, 2.0, 60.0)),
        forgets=random.Random(f"{seed}/forgets").choice((0.0, 0.0, 0.3)),
    )


def _drawn_first(seed: int) -> Load:
    source = random.Random(f"{seed}/load")
    usurped = source.random() < 0.2
    return Load(
        seconds=source.choice((8.0, 15.0, 30.0)),
        topics=source.randint(1, 4),
        mortal_topics=0 if usurped else source.choice((0, 1, 1, 2)),
        mortal_seconds=source.choice((0.5, 2.0, 5.0)),
        partitions_max=source.randint(1, 4),
        producers=source.randint(1, 4),
        readers=source.randint(1, 3),
        plain=source.choice((0.0, 0.2, 0.5)),
        pause_seconds=source.choice((0.03, 0.08, 0.15, 0.4)),
        under_way_max=source.choice((1, 5, 20, 60)),
        batch_rows_max=source.choice((2, 5, 20)),
        batches=source.choice((0.0, 0.2, 0.6, 1.0)),
        natural=source.choice((0.0, 0.3, 0.7, 1.0)),
        ids=source.choice((5, 30, 300)),
        keyed=source.choice((0.0, 0.5, 1.0)),
        repeats=source.random(),
        tight=source.choice((0.0, 0.2, 0.5, 0.9)),
        tight_seconds=source.choice((0.02, 0.1, 0.5, 2.0)),
        timeout_seconds=source.choice((5.0, 10.0, 30.0)),
        value_bytes=source.choice((30, 200, 1000)),
        large=source.choice((0.0, 0.05, 0.2)),
        large_bytes=source.choice((5, 20, 60)) * KIB,
        compressed=source.choice((0.0, 0.0, 0.5)),
        stop_every=source.choice((0.0, 0.0, 8.0)),
        usurp_every=source.choice((1.0, 3.0, 8.0)) if usurped else 0.0,
        inline_bytes=source.choice((0, 1, 4, 16)) * KIB,
        overlap_bytes=source.choice((0, 4, 64, 256)) * KIB,
        publish_bytes=source.choice((8, 64, 1024)) * KIB,
        window_bytes=source.choice((4, 32, 1024)) * KIB,
        tail_bytes=source.choice((0, 16, 1024)) * KIB,
        pages_bytes=source.choice((0, 16, 1024)) * KIB,
        wal_bytes=source.choice((16, 64, 1024)) * KIB,
        seal_rows=source.choice((20, 60, 300)),
        seal_seconds=source.choice((1.0, 3.0, 8.0, 600.0)),
        upkeep_seconds=source.choice((0.3, 0.7, 1.5)),
        index_bytes=source.choice((0, 16, 1024)) * KIB,
        ids_bytes=source.choice((0, 16, 1024)) * KIB,
        brief_topics=source.choice((0, 1, 2)),
        retention_seconds=source.choice((1.0, 3.0, 8.0)),
        sized_topics=source.choice((0, 0, 1)),
        retention_bytes=source.choice((64, 256, 1024)) * KIB,
        window_seconds=source.choice((2.0, 15.0, 600.0, 600.0)),
        alter_every=source.choice((0.0, 2.0, 8.0)),
        expiring=source.choice((0.0, 0.0, 0.2, 0.9)),
        delayed=source.choice((0.0, 0.0, 0.1, 0.5)),
        attributed=source.choice((0.0, 0.3)),
        named=source.choice((0, 1, 2)),
        ignored=random.Random(f"{seed}/ignored").choice((0.0, 0.0, 0.3)),
        deletes=source.choice((0.0, 0.0, 0.1, 0.5)),
        small_bytes=random.Random(f"{seed}/small").choice((0, 256, 1024, 16 * KIB)),
        slow=random.Random(f"{seed}/slow").choice((0, 0, 1, 2)),
        backup_every=random.Random(f"{seed}/backups").choice((0.0, 0.0, 1.0, 4.0)),
    )
