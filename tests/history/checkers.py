"""One small function per promise. Each takes what clients saw of one topic and yields every case in
which the promise was broken.

A checker never asks the broker anything. It may rely on one thing: after healing, a fresh reader
has read every partition from the beginning (sessions named FINAL). If a promise has a condition,
the checker has the same one, no wider: a hole is a hole only because some publish was answered
"deadline passed" or was never answered; an id may be stored again only after the window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf

from tests.history import (
    promises_of_deleting,
    promises_of_delivery,
    promises_of_keeping,
    promises_of_reading,
    promises_of_schedules,
    promises_of_the_kit,
)
from tests.history.events import Event, Row
from tests.history.facts import Facts, Session, facts_of, topics_of
from tests.history.keeping import Clocks, Keeping
from tests.history.moves import may_be_due
from tests.history.violations import Cases, Violation

Checker = Callable[[Facts], Cases]

KINDS_OF_A_PUBLISH = frozenset({"deadline-passed", "outcome-unknown", "unavailable", "full", "full-at-once", "corrupt"})
ROUNDED = 2
"""How far a moment may be rounded on its way, in microseconds."""
KINDS_OF_A_DELETED_TOPIC = frozenset({"topic-not-found", "conflict"})


def nothing_comes_from_nowhere(facts: Facts) -> Cases:
    """Every message that is read was sent to this topic, with this value, key and id, by this
    group.
    """
    for session, row in _every_row(facts):
        send = facts.sends.get(row.label)
        where = f"{session.name} read {row.label} at {facts.topic}/{row.partition}@{row.offset}"
        if send is None:
            yield f"{where}, which was {'sent before the topic was made anew' if row.label in facts.forgotten else 'never sent'}"
        elif _content(row) != _content(send.sent) or not may_be_due(facts, send, row):
            yield f"{where} as {row}, and sent was {send.sent}"
        elif row.expires != send.sent.expires and not send.sent.expires <= row.expires + ROUNDED:
            yield f"{where} to expire at {row.expires}, and sent was {send.sent.expires}"
        elif send.id and row.id != send.id:
            yield f"{where} under id {row.id!r}, and its id is {send.id!r}"


def _content(row: Row) -> tuple[object, ...]:
    return row.value, row.key, row.attributes, row.group


def refused_is_never_read(facts: Facts) -> Cases:
    """A message that was certainly refused is not read: not afterwards, and not before."""
    for session, row in _every_row(facts):
        send = facts.sends.get(row.label)
        if send is not None and send.refused:
            where = f"{facts.topic}/{row.partition}@{row.offset}"
            yield f"{session.name} read {row.label} at {where}, which was refused at {send.ended:.3f} s ({send.answer.error})"


def one_message_per_offset(facts: Facts) -> Cases:
    """All clients agree about an offset; an offset is never used again. The first is 1."""
    said: dict[tuple[int, int], tuple[str, str]] = {}
    for session, row in _every_row(facts):
        label, who = said.setdefault((row.partition, row.offset), (row.label, session.name))
        if label != row.label:
            yield f"{facts.topic}/{row.partition}@{row.offset} is {label} for {who} and {row.label} for {session.name}"
        if row.offset < 1:
            yield f"{session.name} read {row.label} at offset {row.offset}"
    for send in facts.sends.values():
        place = (send.answer.partition, send.answer.offset)
        if send.acknowledged and not send.answer.duplicate and said.get(place, (send.label, ""))[0] != send.label:
            yield f"{facts.topic}/{place[0]}@{place[1]} was acknowledged for {send.label}, and {said[place][1]} read {said[place][0]} there"


def readers_go_forward(facts: Facts) -> Cases:
    """A reader sees the offsets of a partition rise."""
    for session in facts.sessions.values():
        last: dict[int, int] = {}
        for _, row in session.seen:
            if row.offset <= last.get(row.partition, 0):
                yield f"{session.name} read {facts.topic}/{row.partition}@{row.offset} after {last[row.partition]}"
            last[row.partition] = row.offset


def holes_are_explained(facts: Facts) -> Cases:
    """Offsets are dense from 1. A hole is a publish that missed its deadline, or whose outcome is
    unknown.
    """
    stored = facts.stored()
    known = {(send.answer.partition, send.answer.offset) for send in facts.sends.values() if send.acknowledged} | facts.rows.keys()
    ends: dict[int, int] = {}
    for partition, offset in known:
        ends[partition] = max(offset, ends.get(partition, 0))
    holes = sum(ends.values()) - len(known)
    taken_back = sum(1 for send in facts.sends.values() if not send.acknowledged and send.label not in stored)
    if holes > taken_back:
        yield f"{facts.topic} has {holes} unknown offsets, and only {taken_back} messages that were refused or never answered"


def stored_once(facts: Facts) -> Cases:
    """One call of send stores its message once, whatever happens on the way."""
    places: dict[str, Row] = {}
    for row in facts.rows.values():
        first = places.setdefault(row.label, row)
        if first is not row:
            yield f"{row.label} is stored at {facts.topic}/{first.partition}@{first.offset} and at {row.partition}@{row.offset}"


def duplicates_name_the_first(facts: Facts) -> Cases:
    """An answer "duplicate" names a message of the same id that was stored earlier, or by this very
    call.
    """
    for send in facts.sends.values():
        if send.acknowledged and send.answer.duplicate:
            row = facts.rows.get((send.answer.partition, send.answer.offset))
            if row is not None and row.label != send.label and facts.sends[row.label].invoked > send.ended:
                yield f"{send.label} was answered as a duplicate of {row.label}, which was sent later"


def order_of_each_producer(facts: Facts) -> Cases:
    """The messages of one producer are in a partition in the order of sending. Rows of one call are
    in order for each key: those without one may be put before or behind the others.
    """
    calls: dict[tuple[str, int], tuple[int, Row]] = {}
    keys: dict[tuple[str, int, int, str], tuple[int, Row]] = {}
    for row in _by_offset(facts):
        send = facts.sends.get(row.label)
        if send is None or not send.producer:
            continue
        of_call, of_key = (send.producer, row.partition), (send.producer, row.partition, send.sequence, row.key)
        for place, before in (send.sequence, calls.get(of_call)), (send.row, keys.get(of_key)):
            if before is not None and place < before[0]:
                where = f"{facts.topic}/{row.partition} has them at {row.offset} and {before[1].offset}"
                yield f"{send.producer} sent {row.label} (send {send.sequence}) before {before[1].label}, and {where}"
        calls[of_call], keys[of_key] = (send.sequence, row), (send.row, row)


def arrival_never_falls(facts: Facts) -> Cases:
    """A later offset has not arrived earlier."""
    last: dict[int, Row] = {}
    for row in _by_offset(facts):
        before = last.get(row.partition)
        if before is not None and row.arrived < before.arrived:
            yield f"{facts.topic}/{row.partition}@{row.offset} arrived at {row.arrived}, and @{before.offset} at {before.arrived}"
        last[row.partition] = row


def rows_never_change(facts: Facts) -> Cases:
    """A row is the same in every read, before and after it was sealed, coalesced with others, and
    copied: arrival and all. Only its owner gives it another due time.
    """
    for session, row in _every_row(facts):
        first = facts.rows[row.partition, row.offset]
        if row != first._replace(due=row.due):
            yield f"{session.name} read {facts.topic}/{row.partition}@{row.offset} as {row}, and somebody else as {first}"


def refusals_make_sense(facts: Facts) -> Cases:
    """Well-formed messages to a topic that is there are refused only for reasons of time and
    storage.
    """
    for send in facts.sends.values():
        error = send.answer.error
        if error and error not in KINDS_OF_A_PUBLISH | facts.foreseen and not (error in KINDS_OF_A_DELETED_TOPIC and facts.made_anew):
            yield f"{send.label} to {facts.topic} was refused as {error!r}"


CHECKERS: tuple[Checker, ...] = (
    nothing_comes_from_nowhere,
    refused_is_never_read,
    one_message_per_offset,
    readers_go_forward,
    holes_are_explained,
    stored_once,
    duplicates_name_the_first,
    order_of_each_producer,
    arrival_never_falls,
    rows_never_change,
    refusals_make_sense,
    promises_of_the_kit.only_given_ids_are_duplicates,
)


def check(
    events: list[Event], *, steady_clocks: bool = False, clocks: Clocks | None = None, foreseen: frozenset[str] = frozenset()
) -> list[Violation]:
    """Every broken promise in a history. `clocks` says how wrong the broker's clock can have been,
    and so what may be gone; without it nothing may. `foreseen` are the kinds of errors with which
    something before the broker may have refused a publish.
    """
    of_keeping = (*promises_of_keeping.CHECKERS, *promises_of_deleting.CHECKERS, promises_of_the_kit.silence_means_stored)
    of_keeping += (*promises_of_delivery.CHECKERS, promises_of_schedules.a_reader_sees_the_new_due_time)
    of_keeping += (promises_of_keeping.stored_is_found, promises_of_deleting.stored_can_be_deleted) if steady_clocks else ()
    broken: list[Violation] = []
    for topic in topics_of(events):
        facts = facts_of(events, topic)
        facts.foreseen = foreseen
        if facts.deleted:
            continue
        if not facts.read_to_the_end:
            broken.append(Violation("the final read", f"{topic} was not read to its end"))
            continue
        broken += [Violation(checker.__name__, case) for checker in CHECKERS for case in checker(facts)]
        kept = Keeping(facts, clocks)
        broken += [Violation(checker.__name__, case) for checker in of_keeping for case in checker(kept)]
        broken += promises_of_reading.check(events, kept)
    return broken


# These checkers need more than the clients' history: the caller brings the data.


def live_equals_loaded(who: str, live: Mapping[str, object], loaded: Mapping[str, object]) -> list[Violation]:
    """Invariant 6: compares the state of a broker when it died with the state loaded from its disk
    plus the changes that had not landed.
    """
    different = [name for name in live if live[name] != loaded.get(name)]
    return [Violation("live_equals_loaded", f"{who}: {name} was {live[name]!r}, loaded is {loaded.get(name)!r}") for name in different]


def memory_stays_bounded(samples: Iterable[tuple[str, int, int]]) -> list[Violation]:
    """Invariant 10: no budget is ever exceeded. Samples are (what, bytes, at most)."""
    return [Violation("memory_stays_bounded", f"{what}: {used} bytes of {most}") for what, used, most in samples if used > most]


def everything_comes_back(*held: Iterable[tuple[str, int]]) -> list[Violation]:
    """Borrowed resources come back once no client is left and upkeep has had its turns. Each is
    (what, how much of it).
    """
    return [Violation("everything_comes_back", f"{much} {what} are held, and serve nobody") for each in held for what, much in each if much]


def same_digest(seed: int, digests: Iterable[str]) -> list[Violation]:
    """Invariant 12: a seed that is run again gives the same events."""
    different = sorted(set(digests))
    return [Violation("same_digest", f"seed {seed} gave {' and '.join(different)}")] if len(different) > 1 else []


def refused_bytes_never_travel(sent: Iterable[tuple[float, frozenset[str]]], events: list[Event]) -> list[Violation]:
    """Invariant 13: no bytes of a refused message are in anything that a reader was sent, padding
    included. (Where a topic was made anew, a message may have been stored in the old one, and read
    there, before it was refused by the new one.)

    `sent` are the labels that were found in the raw bytes of each answer, with the moment of
    sending.
    """
    never_after: dict[str, float] = {}
    for topic in topics_of(events):
        facts = facts_of(events, topic)
        never_after |= {send.label: send.ended if facts.made_anew else -inf for send in facts.sends.values() if send.refused}
    return [
        Violation("refused_bytes_never_travel", f"{label}, which was refused, was in an answer of {time:.3f} s")
        for time, labels in sent
        for label in sorted(labels & never_after.keys())
        if time > never_after[label]
    ]


def expired_is_not_delivered(fetched: Iterable[tuple[float, str, frozenset[str]]], events: list[Event], clocks: Clocks) -> list[Violation]:
    """No reader gets a message that is too old, or past its `expires`: exact to the second,
    whatever lies on the disk.

    `fetched` are the moments at which the broker took messages for a reader, with the topic and
    their labels.
    """
    broken: list[Violation] = []
    all_kept = {topic: Keeping(facts_of(events, topic), clocks) for topic in topics_of(events)}
    places = {topic: {row.label: place for place, row in kept.facts.rows.items()} for topic, kept in all_kept.items()}
    for time, topic, labels in fetched:
        kept = all_kept.get(topic)
        if kept is None or kept.facts.deleted or time < kept.facts.acknowledged:
            continue
        for label in sorted(labels & places[topic].keys()):
            send, place = kept.facts.sends.get(label), places[topic][label]
            if send is not None and kept.must_be_gone(place, send, time):
                broken.append(Violation("expired_is_not_delivered", f"{label} of {topic} was taken for a reader at {time:.3f} s"))
    return broken


def _by_offset(facts: Facts) -> list[Row]:
    return sorted(facts.rows.values(), key=lambda row: (row.partition, row.offset))


def _every_row(facts: Facts) -> Iterator[tuple[Session, Row]]:
    for session in facts.sessions.values():
        for _, row in session.seen:
            yield session, row
