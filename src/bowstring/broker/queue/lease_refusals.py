"""Why a message that was asked for by its id is not leased."""

from __future__ import annotations

from bowstring import errors, times
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.queue.consumer import LiveConsumer
from bowstring.broker.queue.queues import Queues
from bowstring.broker.reading.row_times import row_times
from bowstring.core.ledger import Ledger
from bowstring.core.row_set import RowSet


class PlaceRefusals:
    """The errors for messages of one partition, which are asked for by one consumer."""

    def __init__(self, queues: Queues, consumer: LiveConsumer, actor: PartitionActor) -> None:
        self._queues = queues
        self._consumer = consumer
        self._actor = actor
        self._topic = consumer.subscription.topic.row.name
        self._name = consumer.subscription.name

    def _place(self, offset: int) -> str:
        return f"{self._topic}/{self._actor.partition.number}@{offset}"

    def _details(self, offset: int, **more: str) -> dict[str, str]:
        return {"topic": self._topic, "partition": str(self._actor.partition.number), "offset": str(offset), **more}

    def taken(self, offset: int, holder: str, until: int) -> errors.LeaseTaken:
        """Another consumer holds it."""
        end = times.to_text(until)
        return errors.LeaseTaken(
            f"'{holder}' holds {self._place(offset)} until {end[11:23]}Z.",
            hint="Wait for its end, or take the lease away: bowstring lease release.",
            details=self._details(offset, consumer=holder, until=end),
        )

    def busy(self, offset: int, ledger: Ledger, grant: int) -> errors.LeaseTaken:
        """A consumer holds other messages of its key."""
        leases = ledger.leases.of_grant(grant)
        holder = ledger.consumers[leases[0].consumer].name if leases else ""
        until = times.to_text(max(lease.until for lease in leases)) if leases else ""
        return errors.LeaseTaken(
            f"'{holder}' holds other messages of the key of {self._place(offset)}.",
            hint="Messages of one key are at one consumer at a time: wait until those are settled.",
            details=self._details(offset, consumer=holder, until=until, key="busy"),
        )

    def behind(self, offset: int) -> errors.Conflict:
        """An earlier message of its key waits."""
        return errors.Conflict(
            f"an earlier message of the key of {self._place(offset)} waits.",
            hint="Messages of one key come in order: lease that one, too.",
            details=self._details(offset, standing="behind"),
        )

    def settled(self, offset: int) -> errors.Conflict:
        """It was acked, or is a dead letter."""
        return errors.Conflict(
            f"{self._place(offset)} is settled for '{self._name}' already.",
            hint="It was acked, or is a dead letter, or the filter leaves it out. To get it again: bowstring subscription seek.",
            details=self._details(offset, standing="settled"),
        )

    def condemned(self, offset: int) -> errors.Conflict:
        """It is about to be a dead letter."""
        return errors.Conflict(
            f"{self._place(offset)} is about to be a dead letter.",
            hint="It is in the dead letters of the subscription soon.",
            details=self._details(offset, standing="condemned"),
        )

    def left_out(self, offset: int) -> errors.Conflict:
        """The filter leaves it out."""
        return errors.Conflict(
            f"the filter of '{self._name}' leaves {self._place(offset)} out.",
            hint="Use a subscription with another filter.",
            details=self._details(offset, standing="left-out"),
        )

    def later(self, offset: int, moment: int | None) -> errors.Conflict:
        """It is not due."""
        due = "" if moment is None else times.to_text(moment)
        return errors.Conflict(
            f"{self._place(offset)} is not due{f' before {due}' if due else ''}.",
            hint="Lease it then.",
            details=self._details(offset, standing="later", **({"due": due} if due else {})),
        )

    def unknown(self, offset: int) -> errors.Unavailable:
        """It is too far ahead."""
        return errors.Unavailable(
            f"the broker has not looked at {self._place(offset)} yet: too many messages wait before it.",
            hint="Work those off first, or wait and repeat.",
            details=self._details(offset),
        )

    def gone(self, offset: int) -> errors.MessageNotFound:
        """Its delivery has found it expired or damaged."""
        return errors.MessageNotFound(
            f"{self._place(offset)} cannot be delivered: it has expired, or its page is damaged.",
            hint="Damage is in the log of the broker: bowstring inspect.",
            details=self._details(offset),
        )

    def full(self) -> errors.Full:
        """The consumer holds as much as it may."""
        return errors.Full(
            f"consumer '{self._consumer.name}' holds as many bytes or leases as it may.",
            hint="Settle some first, or use more credit_bytes=.",
        )

    def apart(self) -> errors.Conflict:
        """The consumer holds a suspect."""
        return errors.Conflict(
            f"consumer '{self._consumer.name}' holds messages that may have let other consumers crash, and nothing beside them.",
            hint="Settle them first.",
        )

    async def due_times(self, ledger: Ledger, rows: RowSet) -> dict[int, int]:
        """When rows come, by the broker's clock."""
        clock, log_clock = self._queues.clock, self._queues.log.clock
        late = clock.now() - log_clock.now()
        moments, offsets = ledger.timeline.arrays()
        nacked = {offset: moment - late for moment, offset in zip(moments.tolist(), offsets.tolist(), strict=True)} if len(moments) else {}
        wanted = rows.offsets().tolist()
        scheduled = [offset for offset in wanted if offset not in nacked]
        found = await row_times(self._actor.partition, self._queues.reading, scheduled) if scheduled else {}
        known = {offset: due for offset, (due, _) in found.items()}
        return known | {offset: nacked[offset] for offset in wanted if offset in nacked}
