"""The ledger as anybody would write it: one record per message, and a loop over all of them.

It takes the same requests as the real one and answers them by itself: leases, settlements, retry
counts, suspects of a crash, and messages that become dead letters.
"""

from __future__ import annotations

from dataclasses import dataclass, field

ACK, NACK, REJECT, RELEASE = 1, 2, 3, 4
DELIVERIES_MAX = 5
"""After so many in vain a message is condemned."""
GROUPS = {2: 256, 3: 32, 4: 4}
"""How many messages are leased together, by their expiries; with more of them one is alone."""
GRANTS_MAX = 4
ORDERED_ROWS_MAX = 4
"""The tests have so few, so that the limits are met."""


@dataclass
class Message:
    """One row."""

    settled: bool = False
    granted: bool = False
    """Whether it was ever delivered since the last reset."""
    grant: int = 0
    consumer: str = ""
    until: int = 0
    retries: int = 0
    later: int = 0
    """When it comes again; 0 if it was not given back for later."""
    undue: bool = False
    """Whether it was published for later, passed by, and nobody has told that it is due."""
    told: int = 0
    """A number that it got when it was told to be due; 0 if it was not."""
    expiries: int = 0
    apart: int = 0
    """How many there were in its grant, if the consumer held nothing else."""
    condemned: tuple[str, str] | None = None
    """Its reason, and the consumer of its last delivery."""

    @property
    def idle(self) -> bool:
        """No consumer holds it, and it waits for a delivery, now or later."""
        return not self.settled and not self.grant and self.condemned is None

    def is_free(self, now: int) -> bool:
        """Whether it can be granted."""
        return self.idle and self.later <= now and not self.undue


@dataclass
class Wave:
    """Rows that were told to be due and come together: pairs of an offset and what it was told with."""

    rows: list[tuple[int, int]] = field(default_factory=list)
    by_offset: bool = False
    """Whether there were many at once."""
    begun: bool = False
    """Whether rows have left since then."""


@dataclass
class NaiveLedger:
    """A subscription in one partition."""

    start: int = 1
    rows: dict[int, Message] = field(default_factory=dict)
    grants: int = 0
    turns: int = 0
    waves: list[Wave] = field(default_factory=list)
    sought: int = 1
    """Grants below this ended at the latest with a seek."""
    backoff: tuple[int, float, int] | None = None
    requests: dict[str, dict[int, set[tuple[int, int]]]] = field(default_factory=dict)
    """For each consumer its requests, and the (grant, row) pairs that each was refused."""

    def append(self, offset: int) -> None:
        self.rows[offset] = Message(settled=offset < self.start)

    def leave(self, offsets: set[int]) -> None:
        """Deleted, or taken by retention."""
        for offset in offsets & self.rows.keys():
            self.rows[offset] = Message(settled=True)

    def grant(self, consumer: str, most: int, lease: int, now: int) -> tuple[int, list[int]] | None:
        mine = {row.grant for row in self.rows.values() if row.grant and row.consumer == consumer}
        free = [offset for offset, row in sorted(self.rows.items()) if row.is_free(now) and row.expiries < 2]
        again = [offset for offset in free if self.rows[offset].granted and not self.rows[offset].told]
        again += self._due(free)
        fresh = [offset for offset in free if not self.rows[offset].granted]
        return self._granted(consumer, mine, (again + fresh)[:most], lease, now)

    def grant_filtered(
        self, consumer: str, most: int, lease: int, now: int, eligible: set[int], scouted: int
    ) -> tuple[int, list[int]] | None:
        """Rows from the cursor on are granted if they are eligible. What the filter leaves out before the next eligible
        row is settled.
        """
        mine = {row.grant for row in self.rows.values() if row.grant and row.consumer == consumer}
        free = [offset for offset, row in sorted(self.rows.items()) if row.is_free(now) and row.expiries < 2]
        again = [offset for offset in free if self.rows[offset].granted and not self.rows[offset].told]
        again = (again + self._due(free))[:most]
        fresh = sorted(eligible)[: most - len(again)]
        found = self._granted(consumer, mine, again + fresh, lease, now)
        if found is not None and fresh:
            left = sorted(eligible - set(fresh))
            self.skip(0, left[0] if left else scouted)
        return found

    def grant_these(self, consumer: str, chosen: set[int], upto: int, lease: int, now: int) -> tuple[int, list[int]] | None:
        """The other rows before `upto` count as delivered before."""
        mine = {row.grant for row in self.rows.values() if row.grant and row.consumer == consumer}
        found = self._granted(consumer, mine, sorted(chosen), lease, now)
        if found is not None:
            for offset in range(1, upto):
                self.rows[offset].granted = True
        return found

    def _due(self, free: list[int]) -> list[int]:
        found: list[int] = []
        for wave in self._waves():
            offsets = [offset for offset, _ in wave.rows]
            found += sorted(offsets) if wave.by_offset else offsets
        return [offset for offset in found if offset in free]

    def _waves(self) -> list[Wave]:
        """Those that have rows which were not granted, and did not leave, since they were told."""
        for wave in self.waves:
            before = len(wave.rows)
            wave.rows = [(offset, told) for offset, told in wave.rows if self.rows[offset].told == told]
            wave.begun = wave.begun or (wave.by_offset and len(wave.rows) < before)
        self.waves = [wave for wave in self.waves if wave.rows]
        return self.waves

    def pass_by(self, first: int, undue: set[int]) -> None:
        """The cursor passes rows up to the last of these, which are not due."""
        for offset in range(first, max(undue) + 1):
            row = self.rows[offset]
            if not row.settled:
                row.granted, row.undue = True, offset in undue

    def come_due(self, offsets: list[int]) -> None:
        """These are due, in this order."""
        fresh = [offset for offset in offsets if offset in self.rows and self.rows[offset].undue]
        if not fresh:
            return
        waves = self._waves()
        if not waves or (len(waves) == 1 and waves[0].begun):
            waves.append(Wave())
        for offset in fresh:
            self.turns += 1
            self.rows[offset].undue, self.rows[offset].told = False, self.turns
            waves[-1].rows.append((offset, self.turns))
        waves[-1].by_offset = waves[-1].by_offset or len(waves[-1].rows) > ORDERED_ROWS_MAX

    def forget_due(self) -> None:
        """A broker is loaded: nobody has told yet what is due."""
        for row in self.rows.values():
            row.undue, row.told = row.undue or row.told > 0, 0

    def skip(self, first: int, upto: int) -> None:
        """The filter leaves these out."""
        for offset, row in self.rows.items():
            if first <= offset < upto and not row.granted and not row.settled:
                self.rows[offset] = Message(settled=True)

    def _granted(self, consumer: str, mine: set[int], chosen: list[int], lease: int, now: int) -> tuple[int, list[int]] | None:
        return self._lease(consumer, chosen, lease, now) if chosen and len(mine) < GRANTS_MAX else None

    def grant_apart(self, consumer: str, most: int, lease: int, now: int) -> tuple[int, list[int]] | None:
        """The first suspects, as many as may be together."""
        chosen: list[int] = []
        for offset, row in sorted(self.rows.items()):
            if row.is_free(now) and row.expiries >= 2:
                sizes = [GROUPS.get(self.rows[one].expiries, 1) for one in [*chosen, offset]]
                if len(chosen) == most or min(sizes) < len(sizes):
                    break
                chosen.append(offset)
        mine = {row.grant for row in self.rows.values() if row.grant and row.consumer == consumer}
        return self._lease(consumer, chosen, lease, now, apart=len(chosen)) if chosen and len(mine) < GRANTS_MAX else None

    def _lease(self, consumer: str, chosen: list[int], lease: int, now: int, apart: int = 0) -> tuple[int, list[int]]:
        self.grants += 1
        self.requests.setdefault(consumer, {0: set()})
        for offset in chosen:
            row = self.rows[offset]
            row.granted, row.grant, row.consumer, row.until = True, self.grants, consumer, now + lease
            row.later, row.told, row.apart = 0, 0, apart
        return self.grants, sorted(chosen)

    def holds(self, consumer: str | None, grant: int, offset: int, now: int) -> bool:
        row = self.rows.get(offset)
        return row is not None and row.grant == grant > 0 and consumer in (None, row.consumer) and row.until > now

    def settle(self, consumer: str, number: int, parts: list[tuple[int, int, set[int] | None, int]], now: int) -> set[tuple[int, int]]:
        """Parts are (grant, outcome, rows, moment), with None for all rows. Gives the pairs of grant and row that
        were refused; row 0 is a whole grant that is not held.
        """
        if consumer not in self.requests:
            return {(grant, row) for grant, _, rows, _ in parts for row in (rows if rows is not None else {0})}
        answers = self.requests[consumer]
        if number <= max(answers):
            return answers.get(number, set())
        before = {(row.grant, offset) for offset, row in self.rows.items() if self.holds(consumer, row.grant, offset, now)}
        refused: set[tuple[int, int]] = set()
        for grant, outcome, rows, moment in parts:
            if rows is None:
                rows = {offset for held, offset in before if held == grant and self.rows[offset].grant == grant} or {0}
                if rows == {0} and grant in {held for held, _ in before}:
                    continue
            for offset in rows:
                if self.holds(consumer, grant, offset, now):
                    self._end(offset, outcome, moment, now)
                else:
                    refused.add((grant, offset))
        answers[number] = refused
        return refused

    def _end(self, offset: int, outcome: int, moment: int, now: int) -> None:
        row = self.rows[offset]
        row.grant = 0
        if outcome == ACK:
            self.rows[offset] = Message(settled=True)
        elif outcome != RELEASE:
            row.retries += 1
            if outcome == REJECT or row.retries >= DELIVERIES_MAX:
                row.condemned = "rejected" if outcome == REJECT else f"given back {DELIVERIES_MAX} times", row.consumer
            else:
                row.later = moment or self._after(row.retries, now)

    def _after(self, retries: int, now: int) -> int:
        """When a row comes again by the backoff that failed so often."""
        if self.backoff is None:
            return 0
        wait, factor, most = self.backoff
        for _ in range(retries - 1):
            wait = min(most, wait * factor)
        return now + round(min(wait, most))

    def extend(self, consumer: str, pairs: list[tuple[int, int]], until: int, now: int) -> set[tuple[int, int]]:
        refused = {(grant, offset) for grant, offset in pairs if not self.holds(consumer, grant, offset, now)}
        for _, offset in set(pairs) - refused:
            self.rows[offset].until = max(self.rows[offset].until, until)
        return refused

    def give_back(self, pairs: list[tuple[int, int]], now: int) -> None:
        for grant, offset in pairs:
            if self.holds(None, grant, offset, now):
                self.rows[offset].grant = 0

    def expire(self, now: int) -> None:
        for row in self.rows.values():
            if row.grant and row.until <= now:
                row.grant = 0
                row.retries += 1
                if row.retries >= DELIVERIES_MAX and row.apart == 1:
                    row.condemned = "its leases expired, the last one while its consumer held nothing else", row.consumer
                else:
                    row.expiries += 1
                    row.later = self._after(row.retries, now)

    def set_aside(self, offsets: set[int], *, is_condemned: bool) -> None:
        """Rows that a consumer holds do not reach it."""
        if not is_condemned:
            return self.leave(offsets)
        for offset in offsets:
            retries = self.rows[offset].retries
            self.rows[offset] = Message(granted=True, retries=retries, condemned=("retention reached it before it was settled", ""))
        return None

    def condemn(self, offsets: set[int], reason: str) -> set[int]:
        """Retention has reached these."""
        found = {offset for offset in offsets & self.rows.keys() if self.rows[offset].idle}
        for offset in found:
            row = self.rows[offset]
            row.condemned, row.later, row.undue, row.told = (reason, ""), 0, False, 0
        for offset, row in self.rows.items():
            if not row.granted and offset <= max(found, default=0):
                row.granted, row.undue = True, row.idle
        return found

    def bury(self, offsets: set[int]) -> set[int]:
        """Their dead letters are written."""
        found = {offset for offset in offsets & self.rows.keys() if self.rows[offset].condemned is not None}
        self.leave(found)
        return found

    def reset(self, offset: int, gone: set[int]) -> None:
        self.start = offset
        self.sought = self.grants + 1
        for at, row in self.rows.items():
            settled = at < offset or at in gone
            condemned = row.condemned if at < offset else None
            self.rows[at] = Message(settled=settled, retries=0 if settled else row.retries, condemned=condemned)

    def leased(self, now: int) -> dict[int, tuple[str, int]]:
        return {offset: (row.consumer, row.until) for offset, row in self.rows.items() if row.grant and row.until > now}
