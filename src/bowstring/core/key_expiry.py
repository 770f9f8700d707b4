"""Leases end in a key-shared subscription: `expire_by_key` decides about it. Nothing changes here."""

from __future__ import annotations

from typing import NamedTuple

from bowstring.core.backoff import backed_off
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import Expire, GrantPart
from bowstring.core.row_set import RowSet
from bowstring.core.settling import Behind, RevokedRows, dying_alone


class Expired(NamedTuple):
    """Leases that end."""

    change: Expire
    revoked: tuple[RevokedRows, ...] = ()
    """Rows that would have been held for longer."""


def expire_by_key(ledger: Ledger, now: int, behind: Behind) -> Expired | None:
    """The same in a key-shared subscription. Of the rows of a key only the first one counts as
    delivered in vain: the others waited for it. It is condemned only if it was alone with its consumer.
    """
    if ledger.next_deadline() > now:
        return None
    parts, revoked, ends = list[GrantPart](), list[RevokedRows](), ledger.leases.ending(now)
    for grant in sorted({lease.number for lease in ledger.leases if lease.until <= now}):
        leases = ledger.leases.of_grant(grant)
        held = RowSet.union(lease.rows for lease in leases)
        back = behind(grant, held & ends) & held
        if back:
            parts.append(GrantPart(grant, back.spans()))
            if early := back - ends:
                revoked.append(RevokedRows(ledger.consumers[leases[0].consumer].name, grant, early))
    dying = dying_alone(ledger, now)
    counted = ends - RowSet.union([dying, *(RowSet.of_spans(part.rows) for part in parts)])
    later = backed_off(ledger, counted, now) if ledger.settings.backoff is not None else ()
    return Expired(Expire(*ledger.place, now, later, dying.spans(), tuple(parts)), tuple(revoked))
