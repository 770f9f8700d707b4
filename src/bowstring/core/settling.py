"""A consumer says what became of the rows that it holds: `settle` decides about it, `extend` and
`give_back` about the rest. Nothing changes here.

A row counts as held only if the consumer names the grant by which it holds it, and only before the
lease has ended, whether or not the ledger has expired it yet. Once refused is refused for ever,
because numbers of grants never come again. Each row gets an answer of its own: those that are not
refused are done.

In a key-shared subscription a row that is given back takes the later ones of its key along that the
same grant has: they are **revoked**, which means given back uncounted by the same change. Who knows
the keys is asked (`Behind`).

A repeat of a request changes nothing and gets the answer of the first time, but for who holds the
refused rows: the answer says that as it is now. A request of an older series is none (`request_series`).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from bowstring import errors
from bowstring.core.addresses import Spans
from bowstring.core.backoff import backed_off
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import (
    Bury,
    Condemn,
    Expire,
    Extend,
    GiveBack,
    GrantPart,
    OneLedgerChange,
    Redrive,
    Reset,
    SetAside,
    SetAsideReason,
    Settle,
    SettledPart,
    Settlement,
)
from bowstring.core.machine import NEVER
from bowstring.core.request_series import series_of
from bowstring.core.row_set import NO_ROWS, RowSet

UNANSWERED_MAX = 1_024
"""So many requests may a consumer be ahead of the answers that it has."""


class RowStanding(enum.Enum):
    """Where a row is that was refused."""

    LEASED = "leased"
    """A consumer holds it; the asker itself, if it named the row twice or under another grant."""
    SETTLED = "settled"
    """It was settled, deleted, or taken by retention; or it becomes a dead letter."""
    WAITING = "waiting"
    """It waits for its next delivery."""
    NEVER = "never"
    """It was not delivered yet."""
    SOUGHT = "sought"
    """The lease ended when the subscription was set to another place."""
    KEPT = "kept"
    """The asker holds it still: it is not kept until the moment at which it was to come again."""


class LostRows(NamedTuple):
    """Rows that the asker does not hold, and where they are now."""

    grant: int
    rows: RowSet | None
    """None for all rows of a grant that is not live: which they were is not known any more."""
    standing: RowStanding | None = None
    """None if the rows are not known."""
    holder: str = ""
    until: int = 0


class GrantRows(NamedTuple):
    """Rows of a grant that a request names; None for all that the grant still has."""

    grant: int
    rows: RowSet | None = None


class OutcomeRows(NamedTuple):
    """Rows of a grant and what became of them; None for all that the grant still has."""

    grant: int
    outcome: Settlement
    rows: RowSet | None = None
    moment: int = 0
    """When rows that are nacked come again, by the time of leases; one that has passed means at once.
    0: when the subscription's backoff says.
    """
    reason: str = ""
    """Of a nack or a reject."""


class SettleRequest(NamedTuple):
    """A request of a consumer."""

    consumer: str
    number: int
    """Above those of all its earlier requests in this partition."""
    parts: Sequence[OutcomeRows]
    answered: int = 0
    """It has the answers to all its requests up to this number."""
    latest: int = NEVER
    """No message is kept for longer: rows that were to come again later are refused."""


Behind = Callable[[int, RowSet], RowSet]
"""The rows of a grant that come behind some of its rows in the order of their keys."""


class RevokedRows(NamedTuple):
    """Rows that a consumer does not hold any more because an earlier one of their key was given back,
    or has ended.
    """

    consumer: str
    grant: int
    rows: RowSet


class RowsDone(NamedTuple):
    """What a request comes to: changes to apply before anything else is decided, and the rows that
    were refused. All others are done.
    """

    changes: tuple[OneLedgerChange, ...]
    refused: tuple[LostRows, ...]
    until: int = 0
    """Of an extension: until when the rows are held at least."""
    repeated: bool = False
    revoked: tuple[RevokedRows, ...] = ()


def settle(ledger: Ledger, request: SettleRequest, now: int, behind: Behind | None = None) -> RowsDone:
    """Acks, nacks, rejects and releases. Raises for a request that cannot be carried out."""
    if not 0 < request.number - request.answered <= UNANSWERED_MAX or request.number < 1:
        raise _wrong_number(request)
    consumer = ledger.consumers.named(request.consumer)
    if consumer is None or series_of(request.number) < series_of(consumer.request):
        return RowsDone((), _told(ledger, [GrantRows(part.grant, part.rows) for part in request.parts], now))
    if request.number <= consumer.request:
        remembered = [GrantRows(part.grant, _rows(part.rows)) for part in consumer.refused.get(request.number, ())]
        return RowsDone((), _told(ledger, remembered, now), repeated=True)
    held, parts, beyond, reasons = _Held(ledger, consumer.number, now), list[SettledPart](), list[GrantRows](), list[str]()
    back: list[GrantPart] = []
    for part in request.parts:
        if part.moment > request.latest:
            beyond.append(GrantRows(part.grant, part.rows))
            continue
        spans = held.of(part.grant, part.rows)
        if spans is not None:
            parts += _settled(ledger, part, spans, held.counting, now, reasons)
            if part.outcome not in (Settlement.ACK, Settlement.REJECT):
                back.append(GrantPart(part.grant, spans))
    revoked: tuple[RevokedRows, ...] = ()
    if behind is not None:
        # Also behind a row whose last nack this is: its consumer has revoked them already.
        revoked = held.revoked(back, behind)
        parts += [SettledPart(grant, Settlement.RELEASE, rows.spans()) for _, grant, rows in revoked]
    answered = request.answered if consumer.refused else 0
    change = Settle(*ledger.place, consumer.number, request.number, tuple(parts), (), answered)
    if reasons:
        change.reasons, change.moment = tuple(reasons), now
    if not held.refused and not beyond:
        return RowsDone((change,), (), revoked=revoked)
    change.refused = tuple(GrantPart(part.grant, part.rows.spans() if part.rows else ()) for part in (*held.refused, *beyond))
    kept = [LostRows(part.grant, part.rows, RowStanding.KEPT, until=request.latest) for part in beyond]
    return RowsDone((change,), (*_told(ledger, held.refused, now), *kept), revoked=revoked)


def _settled(ledger: Ledger, part: OutcomeRows, spans: Spans, counting: RowSet, now: int, reasons: list[str]) -> Iterator[SettledPart]:
    """The parts of a change for rows that count. Rejected rows are condemned, and so are those of a
    nack that were delivered as often as they may be: `reasons` gets the reason of each such part.
    Others come again at their moment, or when the backoff says.
    """
    grant, outcome = part.grant, part.outcome
    if outcome is Settlement.REJECT:
        reasons.append(part.reason or "rejected")
        yield SettledPart(grant, Settlement.CONDEMN, spans)
        return
    dying = _dying(ledger, counting) if outcome is Settlement.NACK else NO_ROWS
    if dying:
        times = "once" if ledger.settings.max_deliveries == 1 else f"{ledger.settings.max_deliveries} times"
        reasons.append(part.reason or f"given back {times}")
        is_all = len(dying) == len(counting)
        yield SettledPart(grant, Settlement.CONDEMN, spans if is_all else dying.spans())
        if is_all:
            return
        counting = counting - dying
        spans = counting.spans() if spans else ()
    if not outcome.is_counted or (ledger.settings.backoff is None and not part.moment):
        yield SettledPart(grant, outcome, spans)
    elif part.moment:
        yield SettledPart(grant, outcome, spans, part.moment if part.moment > now else 0)
    else:
        later = backed_off(ledger, counting, now, spans)
        yield from (SettledPart(grant, outcome, some.rows, some.moment) for some in later)


def _dying(ledger: Ledger, rows: RowSet) -> RowSet:
    """Those of the rows that are delivered for the last time, if that is in vain."""
    most = ledger.settings.max_deliveries
    return ledger.counts.reaching(rows, most - 1) if most else NO_ROWS


def extend(ledger: Ledger, consumer: str, parts: Iterable[GrantRows], until: int, now: int) -> RowsDone:
    """Leases last until the moment, or longer if they do already."""
    if until <= now:
        raise errors.InvalidArgument("a lease cannot be extended to a moment in the past.", hint="Use a later one.")
    known = ledger.consumers.named(consumer)
    held = _Held(ledger, 0 if known is None else known.number, now)
    longer = tuple(GrantPart(grant, spans) for grant, rows in parts if (spans := held.of(grant, rows)) is not None)
    changes = (Extend(*ledger.place, until, longer),) if longer else ()
    return RowsDone(changes, _told(ledger, held.refused, now), until)


def give_back(ledger: Ledger, parts: Iterable[GrantRows], now: int) -> RowsDone:
    """Gives rows of any consumer back, without counting it. Leases that have ended are left to
    `expire`, which counts them. In a key-shared subscription these are whole grants, or all rows of a
    grant from one on: then there is nothing to revoke.
    """
    held = _Held(ledger, None, now)
    back = tuple(GrantPart(grant, spans) for grant, rows in parts if (spans := held.of(grant, rows)) is not None)
    return RowsDone((GiveBack(*ledger.place, back),) if back else (), _told(ledger, held.refused, now))


def set_aside(ledger: Ledger, parts: Iterable[GrantRows], reason: SetAsideReason, now: int = 0) -> SetAside | None:
    """Rows of grants that cannot be delivered count as settled, or are condemned, at any consumer.
    Rows that their grant does not have any more are left alone; None if it has none of them.
    """
    held = _Held(ledger, None, -1)
    aside = tuple(GrantPart(grant, spans) for grant, rows in parts if (spans := held.of(grant, rows)) is not None)
    return SetAside(*ledger.place, aside, reason, now) if aside else None


def expire(ledger: Ledger, now: int) -> Expire | None:
    """None if no lease ends by now. Rows are condemned only if they were alone with their consumer."""
    if ledger.next_deadline() > now:
        return None
    dying = dying_alone(ledger, now)
    later = backed_off(ledger, ledger.leases.ending(now) - dying, now) if ledger.settings.backoff is not None else ()
    return Expire(*ledger.place, now, later, dying.spans())


def dying_alone(ledger: Ledger, now: int) -> RowSet:
    """The rows whose leases end by now, that were alone with their consumers, and that are delivered
    for the last time.
    """
    alone = [lease.rows for lease in ledger.leases.apart() if lease.apart == 1 and lease.until <= now]
    return _dying(ledger, RowSet.union(alone)) if alone else NO_ROWS


# Dead letters


def condemn(ledger: Ledger, rows: RowSet, reason: str, now: int) -> Condemn | None:
    """Retention has reached these rows: those that no consumer holds, and that are not settled, are
    condemned. None if there are none.
    """
    rows = rows - ledger.settled.of(rows) - ledger.leases.rows() - ledger.condemned.rows()
    return Condemn(*ledger.place, rows.spans(), reason, now) if rows else None


def bury(ledger: Ledger, rows: RowSet, lost: RowSet = NO_ROWS, others: RowSet = NO_ROWS) -> Bury | None:
    """Those of the rows that are condemned are settled; their dead letters go into the same flush.
    There is none of those that are lost, nor of the others.
    """
    rows = ledger.condemned.among(rows)
    return Bury(*ledger.place, rows.spans(), (lost & rows).spans(), (others & rows).spans()) if rows else None


def redrive(ledger: Ledger, rows: RowSet) -> Redrive | None:
    """Those of the rows of a lane that wait are delivered again; the others were redriven already,
    or are settled.
    """
    rows = redrivable(ledger, rows)
    return Redrive(*ledger.place, rows.spans()) if rows else None


def redrivable(ledger: Ledger, rows: RowSet) -> RowSet:
    """Those of the rows of a lane that can be redriven."""
    rows = rows - RowSet(0, ledger.floor) if rows.first < ledger.floor else rows
    return rows - ledger.settled.of(rows) - ledger.redriven.among(rows)


def reset(ledger: Ledger, offset: int, gone: RowSet = NO_ROWS) -> Reset:
    """The subscription goes on at the offset. `gone` are rows from there on that are deleted, or
    that retention has taken.
    """
    return Reset(*ledger.place, offset, gone.spans())


def _wrong_number(request: SettleRequest) -> errors.Error:
    if request.number < 1 or request.answered >= request.number:
        return errors.InvalidArgument(
            f"request {request.number} says that the answers up to {request.answered} have come.",
            hint="Number requests upwards from 1, and name only answers to earlier ones.",
        )
    return errors.OutOfRange(
        f"request {request.number} comes when only the answers up to {request.answered} have.",
        hint=f"Be at most {UNANSWERED_MAX} requests ahead of the answers, and name those that have come.",
    )


class _Held:
    """Tells the rows of a request that its consumer holds from those that it does not."""

    def __init__(self, ledger: Ledger, consumer: int | None, now: int) -> None:
        """A consumer of None holds everything."""
        self._ledger = ledger
        self._consumer = consumer
        self._now = now
        self._named: dict[int, RowSet] = {}
        """Rows that the request has named already, by grant."""
        self.refused: list[GrantRows] = []
        self.counting = NO_ROWS
        """The rows that counted when it was asked last."""

    def of(self, grant: int, rows: RowSet | None) -> Spans | None:
        """The rows that count, as a change has them; None if none does."""
        if rows is not None and not rows:
            return None
        leases = self._ledger.leases.of_grant(grant)
        live = leases
        for lease in leases:
            if lease.until <= self._now or (lease.consumer != self._consumer and self._consumer is not None):
                live = tuple(other for other in live if other is not lease)
        if not live:
            self.refused.append(GrantRows(grant, rows))
            return None
        named = self._named.get(grant)
        if rows is None and named is None and len(live) == len(leases) == 1:
            self._named[grant] = self.counting = live[0].rows
            return ()
        have = RowSet.union(lease.rows for lease in live)
        left = have if named is None else have - named
        counting = left if rows is None else rows & left
        if rows is not None and len(counting) < len(rows):
            self.refused.append(GrantRows(grant, rows - counting))
        if not counting:
            return None
        self._named[grant] = counting if named is None else RowSet.union((counting, named))
        self.counting = counting
        whole = len(live) == len(leases) and len(counting) == len(left)  # the parts before are applied before
        return () if whole else counting.spans()

    def revoked(self, back: Iterable[GrantPart], behind: Behind) -> tuple[RevokedRows, ...]:
        """Rows that are not named, but come behind rows that are given back."""
        given: dict[int, list[RowSet]] = {}
        for grant, spans in back:
            given.setdefault(grant, []).append(RowSet.of_spans(spans) if spans else self._named[grant])
        found: list[RevokedRows] = []
        for grant, some in given.items():
            leases = self._ledger.leases.of_grant(grant)
            left = RowSet.union(lease.rows for lease in leases if lease.until > self._now) - self._named[grant]
            if left and (rows := behind(grant, RowSet.union(some)) & left):
                found.append(RevokedRows(self._ledger.consumers[leases[0].consumer].name, grant, rows))
        return tuple(found)


def _told(ledger: Ledger, refused: Sequence[GrantRows], now: int) -> tuple[LostRows, ...]:
    return tuple(lost for part in refused for lost in _where(ledger, part, now)) if refused else ()


def _where(ledger: Ledger, part: GrantRows, now: int) -> Iterator[LostRows]:
    """Where the rows are that were refused."""
    sought = 0 < part.grant < ledger.sought
    if part.rows is None or sought:
        yield LostRows(part.grant, part.rows, RowStanding.SOUGHT if sought else None)
        return
    left = part.rows
    if settled := RowSet.union((ledger.settled.of(left), ledger.condemned.among(left))):
        yield LostRows(part.grant, settled, RowStanding.SETTLED)
        left = left - settled
    for rows, holder, until in ledger.leased(left, now):
        yield LostRows(part.grant, rows, RowStanding.LEASED, holder, until)
        left = left - rows
    waiting = left.below(ledger.cursor)
    if waiting:
        yield LostRows(part.grant, waiting, RowStanding.WAITING)
    if never := left - waiting:
        yield LostRows(part.grant, never, RowStanding.NEVER)


def _rows(spans: Spans) -> RowSet | None:
    return RowSet.of_spans(spans) if spans else None
