"""One small function per promise that ends with time: messages are kept until retention, or their
sender, lets them go.

Each has the condition of the promise (`keeping`), computed from what clients know: when the message
was sent, the settings of its topic, and how wrong the broker's clock can have been.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.history.events import Row
from tests.history.facts import Facts
from tests.history.filtering import passes
from tests.history.keeping import Keeping
from tests.history.violations import Cases

OVER_SECONDS = 12.0


def acknowledged_is_kept(kept: Keeping) -> Cases:
    """Every acknowledged message is read back at its partition and offset, with its id, for as long
    as it is kept.
    """
    facts = kept.facts
    for send in facts.sends.values():
        if not send.acknowledged:
            continue
        answer = send.answer
        place = answer.partition, answer.offset
        row = facts.final.get(place) or facts.rows.get(place)
        where = f"{send.label} was acknowledged at {facts.topic}/{answer.partition}@{answer.offset} ({send.ended:.3f} s)"
        if row is not None and row.id != answer.id:
            yield f"{where} under id {answer.id!r}, and there is {row.label} under id {row.id!r}"
        elif row is not None and not answer.duplicate and row.label != send.label:
            yield f"{where} as stored by this call, and there is {row.label}"
        elif place not in facts.final and not _was_gone(kept, place, send.answer.id, send.label):
            yield f"{where}, and nothing is there at the end"


def _was_gone(kept: Keeping, place: tuple[int, int], message_id: str, label: str) -> bool:
    """A message that was called a duplicate is as old as the one that it repeats; if that was never
    seen, as old as any of its id.
    """
    known = kept.at(*place)
    if known is not None:
        return kept.may_be_gone(place, kept.facts.over)
    same = [send for send in kept.facts.sends.values() if send.id == message_id or send.label == label]
    return any(kept.may_be_gone(place, kept.facts.over, send) for send in same)


def read_stays_readable(kept: Keeping) -> Cases:
    """Every message that a reader has read is there at the end, as long as it is kept: nothing was
    shown before it was durable.
    """
    facts = kept.facts
    for session in facts.sessions.values():
        for _, row in session.seen:
            place = row.partition, row.offset
            last = facts.final.get(place)
            if (last is None and not kept.may_be_gone(place, facts.over)) or (last is not None and last.label != row.label):
                where = f"{facts.topic}/{row.partition}@{row.offset}"
                yield f"{session.name} read {row.label} at {where}, and at the end there is {last.label if last else 'nothing'}"


def nothing_is_passed_over(kept: Keeping) -> Cases:
    """A reader gets every message from its start on, or the broker raises `OutOfRange`. It passes
    over holes, and over expired and deleted messages; a reader from the beginning also over
    messages that were gone when it got its first. Messages in its kit may grow too old there.
    """
    facts = kept.facts
    for session in facts.sessions.values():
        last = {partition: start - 1 for partition, start in session.starts.items() if start}
        begun: dict[int, float] = {}
        for time, row in session.seen:
            first = begun.setdefault(row.partition, time)
            for offset in range(last.get(row.partition, 0) + 1, row.offset):
                place = row.partition, offset
                send = kept.at(*place)
                if send is None or kept.has_expired(send, time) or kept.may_be_deleted(send, time) or not passes(session.where, send.sent):
                    continue
                if place in session.came and kept.too_old(place, send, time):
                    continue
                if session.starts.get(row.partition) or not kept.may_be_gone(place, first):
                    yield f"{session.name} passed over {facts.topic}/{row.partition}@{offset}, {send.label}, and read {row.offset}"
            last[row.partition] = row.offset


def passed_over_stays_a_hole(kept: Keeping) -> Cases:
    """If one reader has passed over an offset, all do: no message turns up there at the end."""
    facts = kept.facts
    for session in facts.sessions.values():
        last = {partition: start - 1 for partition, start in session.starts.items() if start}
        for time, row in session.seen:
            for offset in range(last.get(row.partition, 0) + 1, row.offset):
                found = facts.final.get((row.partition, offset))
                if found is not None and passes(session.where, found) and not kept.may_have_aged((row.partition, offset), time):
                    where = f"{facts.topic}/{row.partition}@{offset}"
                    yield f"{session.name} passed over {where}, and at the end {found.label} is there"
            last[row.partition] = row.offset


def overtaken_only_by_retention(kept: Keeping) -> Cases:
    """A reader gets "out of range" only if something that it has not read may be gone; a reader
    from the beginning that has read nothing yet never gets it.
    """
    facts = kept.facts
    for session in facts.sessions.values():
        if session.overtaken > facts.over:
            continue
        where = {partition: max(start, 1) for partition, start in session.starts.items()}
        for _, row in session.seen:
            where[row.partition] = row.offset + 1
        missed = [place for place in kept.places() if place[1] >= where.get(place[0], 1 << 62)]
        if not any(session.starts.values()) and not session.seen and not session.where:
            yield f"{session.name} from the beginning of {facts.topic} was told that it is out of range"
        elif not any(_is_hole(kept, place) for place in where.items()) and not any(kept.may_be_gone(p, session.overtaken) for p in missed):
            yield f"{session.name} was told that {facts.topic} does not go on from {where} at {session.overtaken:.3f} s"


def _is_hole(kept: Keeping, place: tuple[int, int]) -> bool:
    """Whether no known message is at the place although there are some behind it: one was taken
    back, and its page may be gone.
    """
    return place not in kept.places() and any(other[0] == place[0] and other[1] > place[1] for other in kept.places())


def one_offset_per_id(kept: Keeping) -> Cases:
    """Within the window an id is stored once in a partition, unless the first is gone with time: a
    deleted one still counts.
    """
    facts = kept.facts
    newest: dict[tuple[int, str], Row] = {}
    for row in _by_offset(facts):
        before = newest.get((row.partition, row.id))
        newest[row.partition, row.id] = row
        if before is None or before.label not in facts.sends or row.label not in facts.sends:
            continue
        second = facts.sends[row.label]
        window = min(settings.deduplication for settings in facts.settings(facts.sends[before.label].invoked, second.ended))
        gone = kept.may_have_aged((before.partition, before.offset), min(second.ended, facts.over))
        if row.arrived - before.arrived <= window * 1e6 and not gone:
            apart = (row.arrived - before.arrived) / 1e6
            where = f"{facts.topic}/{row.partition}@{before.offset} and @{row.offset}"
            yield f"id {row.id!r} is stored at {where} ({before.label}, {row.label}), {apart:.3f} s apart"


def found_is_there(kept: Keeping) -> Cases:
    """A message is, or was, where `find` says that it is."""
    facts = kept.facts
    for found in facts.finds:
        if found.offset:
            place = found.partition, found.offset
            row = facts.rows.get(place)
            known = kept.at(*place)
            unseen = row is None and (known is None or known.id == found.id) and _was_gone(kept, place, found.id, "")
            if (row is None or row.id != found.id) and not unseen:
                where = f"{facts.topic}/{found.partition}@{found.offset}"
                yield f"find({found.id!r}) gave {where}, and {row.label if row else 'nothing'} is there"


def stored_is_found(kept: Keeping) -> Cases:
    """`find` finds messages that were acknowledged before the call, until retention takes them. For
    runs whose clocks do not jump.
    """
    facts = kept.facts
    for found in facts.finds:
        if found.offset:
            continue
        for send in facts.acknowledged_before(found.invoked, found.id):
            place = send.answer.partition, send.answer.offset
            if kept.at(*place) is not None and not kept.may_be_gone(place, found.ended):
                yield f"find({found.id!r}) gave nothing at {found.ended:.3f} s, and it was acknowledged at {send.ended:.3f} s"


def newest_is_found(kept: Keeping) -> Cases:
    """Of several messages of an id `find` gives the one that arrived last, of those that were
    acknowledged before the call.
    """
    facts = kept.facts
    for found in facts.finds:
        row = facts.rows.get((found.partition, found.offset))
        for send in facts.acknowledged_before(found.invoked, found.id) if row is not None else ():
            place = send.answer.partition, send.answer.offset
            newer = facts.rows.get(place)
            if row is not None and newer is not None and newer.arrived > row.arrived and not kept.may_be_gone(place, found.ended):
                where = f"{facts.topic}/{found.partition}@{found.offset}"
                yield f"find({found.id!r}) gave {where} at {found.ended:.3f} s, and {newer.label} is newer at {place[0]}@{place[1]}"


def found_is_not_over(kept: Keeping) -> Cases:
    """`find` gives nothing that retention took long ago. Where nothing fails, it takes a page
    within `OVER_SECONDS` after a message in it is too old.
    """
    facts, clocks = kept.facts, kept.clocks
    for found in facts.finds if clocks is not None and clocks.notice is not None else ():
        place = found.partition, found.offset
        row, send = facts.rows.get(place), kept.at(*place)
        if clocks is None or row is None or send is None:
            continue
        longest = max(settings.retention for settings in facts.settings(send.invoked, found.invoked))
        if max(row.arrived, kept.due_at_most(place, send)) + longest * 1e6 < clocks.earliest(found.invoked - OVER_SECONDS):
            where = f"{facts.topic}/{found.partition}@{found.offset}"
            yield f"find({found.id!r}) gave {where} at {found.ended:.3f} s, and retention took it long before"


CHECKERS: tuple[Callable[[Keeping], Cases], ...] = (
    acknowledged_is_kept,
    read_stays_readable,
    nothing_is_passed_over,
    passed_over_stays_a_hole,
    overtaken_only_by_retention,
    one_offset_per_id,
    found_is_there,
    newest_is_found,
    found_is_not_over,
)
"""All that hold in every run; `stored_is_found` holds where clocks do not jump."""


def _by_offset(facts: Facts) -> list[Row]:
    return sorted(facts.rows.values(), key=lambda row: (row.partition, row.offset))
