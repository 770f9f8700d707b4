"""One small function per promise. Each takes what clients saw of one topic and tells every case in which the promise was broken.

A checker never asks the broker anything. What it may rely on is that, after healing, a fresh reader has read every partition from the
beginning (sessions named FINAL). Where a promise has a condition, the checker has the same one, no wider: a hole is a hole only because
some publish was answered "deadline passed" or was never answered; an id may be stored again only after the window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import NamedTuple

from tests.history.events import Event, Row
from tests.history.facts import Facts, Session, facts_of, topics_of


class Violation(NamedTuple):
    """A promise that was broken, and the case."""

    checker: str
    case: str

    def __str__(self) -> str:
        return f"{self.checker}: {self.case}"


Cases = Iterator[str]
Checker = Callable[[Facts], Cases]

KINDS_OF_A_PUBLISH = frozenset({"deadline-passed", "outcome-unknown", "unavailable", "full", "full-at-once", "corrupt"})
KINDS_OF_A_DELETED_TOPIC = frozenset({"topic-not-found", "conflict"})
WINDOW_MICROSECONDS = 600_000_000


def acknowledged_is_kept(facts: Facts) -> Cases:
    """Every acknowledged message is read back at its partition and offset, with its value, id and key."""
    for send in facts.sends.values():
        if not send.acknowledged:
            continue
        answer = send.answer
        row = facts.final.get((answer.partition, answer.offset))
        where = f"{send.label} was acknowledged at {facts.topic}/{answer.partition}@{answer.offset} ({send.ended:.3f} s)"
        if row is None:
            yield f"{where}, and nothing is there at the end"
        elif row.id != answer.id:
            yield f"{where} under id {answer.id!r}, and there is {row.label} under id {row.id!r}"
        elif not answer.duplicate and row.label != send.label:
            yield f"{where} as stored by this call, and there is {row.label}"


def nothing_comes_from_nowhere(facts: Facts) -> Cases:
    """What is read was sent, to this topic, with this value, key and id."""
    for session, row in _every_row(facts):
        send = facts.sends.get(row.label)
        where = f"{session.name} read {row.label} at {facts.topic}/{row.partition}@{row.offset}"
        if send is None:
            yield f"{where}, which was {'sent before the topic was made anew' if row.label in facts.forgotten else 'never sent'}"
        elif (row.value, row.key) != (send.sent.value, send.sent.key):
            yield f"{where} as value {row.value} and key {row.key!r}, and sent were {send.sent.value} and {send.sent.key!r}"
        elif send.id and row.id != send.id:
            yield f"{where} under id {row.id!r}, and its id is {send.id!r}"


def refused_is_never_read(facts: Facts) -> Cases:
    """A message that was certainly refused is not read: not afterwards, and not before."""
    for session, row in _every_row(facts):
        send = facts.sends.get(row.label)
        if send is not None and send.refused:
            where = f"{facts.topic}/{row.partition}@{row.offset}"
            yield f"{session.name} read {row.label} at {where}, which was refused at {send.ended:.3f} s ({send.answer.error})"


def one_message_per_offset(facts: Facts) -> Cases:
    """Whoever says something of an offset says the same; an offset is never used again. The first is 1."""
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


def read_stays_readable(facts: Facts) -> Cases:
    """What anybody has read is there at the end: nothing was shown before it was durable."""
    for session, row in _every_row(facts):
        last = facts.final.get((row.partition, row.offset))
        if last is None or last.label != row.label:
            where = f"{facts.topic}/{row.partition}@{row.offset}"
            yield f"{session.name} read {row.label} at {where}, and at the end there is {last.label if last else 'nothing'}"


def readers_go_forward(facts: Facts) -> Cases:
    """A reader sees the offsets of a partition rise."""
    for session in facts.sessions.values():
        last: dict[int, int] = {}
        for _, row in session.seen:
            if row.offset <= last.get(row.partition, 0):
                yield f"{session.name} read {facts.topic}/{row.partition}@{row.offset} after {last[row.partition]}"
            last[row.partition] = row.offset


def passed_over_stays_a_hole(facts: Facts) -> Cases:
    """What a reader has passed over is a hole for everybody: no message turns up in it later."""
    for session in facts.sessions.values():
        last = {partition: start - 1 for partition, start in session.starts.items()}
        for _, row in session.seen:
            for offset in range(last.get(row.partition, row.offset) + 1, row.offset):
                if (row.partition, offset) in facts.final:
                    where = f"{facts.topic}/{row.partition}@{offset}"
                    yield f"{session.name} passed over {where}, and at the end {facts.final[row.partition, offset].label} is there"
            last[row.partition] = row.offset


def holes_are_explained(facts: Facts) -> Cases:
    """Offsets are dense from 1. A hole is a publish that missed its deadline, or whose outcome nobody knows."""
    ends: dict[int, int] = {}
    for partition, offset in facts.final:
        ends[partition] = max(offset, ends.get(partition, 0))
    holes = sum(ends.values()) - len(facts.final)
    stored = facts.stored()
    taken_back = sum(1 for send in facts.sends.values() if not send.acknowledged and send.label not in stored)
    if holes > taken_back:
        yield f"{facts.topic} has {holes} holes at the end, and only {taken_back} messages that were refused or never answered"


def stored_once(facts: Facts) -> Cases:
    """One call of send stores its message once, whatever happens on the way."""
    places: dict[str, Row] = {}
    for row in facts.final.values():
        first = places.setdefault(row.label, row)
        if first is not row:
            yield f"{row.label} is stored at {facts.topic}/{first.partition}@{first.offset} and at {row.partition}@{row.offset}"


def one_offset_per_id(facts: Facts) -> Cases:
    """Within the window an id is stored once in a partition."""
    newest: dict[tuple[int, str], Row] = {}
    for row in _by_offset(facts):
        before = newest.get((row.partition, row.id))
        if before is not None and row.arrived - before.arrived <= WINDOW_MICROSECONDS:
            apart = (row.arrived - before.arrived) / 1e6
            where = f"{facts.topic}/{row.partition}@{before.offset} and @{row.offset}"
            yield f"id {row.id!r} is stored at {where} ({before.label}, {row.label}), {apart:.3f} s apart"
        newest[row.partition, row.id] = row


def duplicates_name_the_first(facts: Facts) -> Cases:
    """An answer "duplicate" names a message of the same id that was stored earlier, or by this very call."""
    for send in facts.sends.values():
        if send.acknowledged and send.answer.duplicate:
            row = facts.final.get((send.answer.partition, send.answer.offset))
            if row is not None and row.label != send.label and facts.sends[row.label].invoked > send.ended:
                yield f"{send.label} was answered as a duplicate of {row.label}, which was sent later"


def order_of_each_producer(facts: Facts) -> Cases:
    """The messages of one producer are in a partition in the order of sending. Rows of one call are in order for each key: those without
    one may be put before or behind the others."""
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


def found_is_there(facts: Facts) -> Cases:
    """Where `find` says that a message is, it is."""
    for found in facts.finds:
        if found.offset:
            row = facts.final.get((found.partition, found.offset))
            if row is None or row.id != found.id:
                where = f"{facts.topic}/{found.partition}@{found.offset}"
                yield f"find({found.id!r}) gave {where}, and at the end {row.label if row else 'nothing'} is there"


def stored_is_found(facts: Facts) -> Cases:
    """`find` finds what was acknowledged before it was asked. For runs whose clocks do not jump over the window."""
    earliest: dict[str, float] = {}
    for send in facts.sends.values():
        if send.acknowledged:
            earliest[send.answer.id] = min(send.ended, earliest.get(send.answer.id, send.ended))
    for found in facts.finds:
        if not found.offset and earliest.get(found.id, found.invoked) < found.invoked:
            yield f"find({found.id!r}) gave nothing at {found.ended:.3f} s, and it was acknowledged at {earliest[found.id]:.3f} s"


def refusals_make_sense(facts: Facts) -> Cases:
    """Well-formed messages to a topic that is there are refused only for reasons of time and storage."""
    for send in facts.sends.values():
        error = send.answer.error
        if error and error not in KINDS_OF_A_PUBLISH and not (error in KINDS_OF_A_DELETED_TOPIC and facts.made_anew):
            yield f"{send.label} to {facts.topic} was refused as {error!r}"


CHECKERS: tuple[Checker, ...] = (
    acknowledged_is_kept,
    nothing_comes_from_nowhere,
    refused_is_never_read,
    one_message_per_offset,
    read_stays_readable,
    readers_go_forward,
    passed_over_stays_a_hole,
    holes_are_explained,
    stored_once,
    one_offset_per_id,
    duplicates_name_the_first,
    order_of_each_producer,
    arrival_never_falls,
    found_is_there,
    refusals_make_sense,
)
"""All that hold in every run; `stored_is_found` holds where clocks do not jump."""


def check(events: list[Event], *, steady_clocks: bool = False) -> list[Violation]:
    """Every broken promise in a history."""
    checkers = (*CHECKERS, stored_is_found) if steady_clocks else CHECKERS
    broken: list[Violation] = []
    for topic in topics_of(events):
        facts = facts_of(events, topic)
        if facts.deleted:
            continue
        if not facts.read_to_the_end:
            broken.append(Violation("the final read", f"{topic} was not read to its end"))
            continue
        broken += [Violation(checker.__name__, case) for checker in checkers for case in checker(facts)]
    return broken


# What needs more than the clients' history: the caller brings the data.


def live_equals_loaded(who: str, live: Mapping[str, object], loaded: Mapping[str, object]) -> list[Violation]:
    """Invariant 6: the state of a broker when it died, and what was loaded from its disk with what had not landed applied on top."""
    different = [name for name in live if live[name] != loaded.get(name)]
    return [Violation("live_equals_loaded", f"{who}: {name} was {live[name]!r}, loaded is {loaded.get(name)!r}") for name in different]


def memory_stays_bounded(samples: Iterable[tuple[str, int, int]]) -> list[Violation]:
    """Invariant 10: no budget is ever exceeded. Samples are (what, bytes, at most)."""
    return [Violation("memory_stays_bounded", f"{what}: {used} bytes of {most}") for what, used, most in samples if used > most]


def same_digest(seed: int, digests: Iterable[str]) -> list[Violation]:
    """Invariant 12: a seed that is run again gives the same events."""
    different = sorted(set(digests))
    return [Violation("same_digest", f"seed {seed} gave {' and '.join(different)}")] if len(different) > 1 else []


def refused_bytes_never_travel(sent: Iterable[tuple[float, frozenset[str]]], events: list[Event]) -> list[Violation]:
    """Invariant 13: no bytes of a refused message are in anything that a reader was sent, padding included. (Where a topic was made anew,
    a message may have been stored in the old one, and read there, before it was refused by the new one.)

    `sent` are the labels that were found in the raw bytes of each answer, with the moment of sending.
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


def _by_offset(facts: Facts) -> list[Row]:
    return sorted(facts.final.values(), key=lambda row: (row.partition, row.offset))


def _every_row(facts: Facts) -> Iterator[tuple[Session, Row]]:
    for session in facts.sessions.values():
        for _, row in session.seen:
            yield session, row
