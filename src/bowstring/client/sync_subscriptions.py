"""The calls of a client about subscriptions, for programs without asyncio (`sync`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING

from bowstring.client import client as asynchronous
from bowstring.client.arguments import Span, SpanOrMoment
from bowstring.client.keys import KeyReport
from bowstring.client.ranges import Start
from bowstring.client.seek import Seek
from bowstring.client.subscriptions import Backoff, Lease, Subscription
from bowstring.wire.loops import LoopThread

if TYPE_CHECKING:
    from bowstring.client.batch import Batch
    from bowstring.client.letters import LetterMessages, LetterPlan, Told
    from bowstring.client.message import Message
    from bowstring.client.receipts import Answers

# This module is the other face of that class, and uses what it keeps from programs.
# pyright: reportPrivateUsage=false


class SyncSubscriptionCalls:
    """What they have in common with the calls of `bowstring.aio`: everything but await."""

    _client: asynchronous.Client
    _thread: LoopThread

    def create_subscription(
        self,
        topic: str,
        name: str,
        *,
        mode: str = "shared",
        start: Start = "beginning",
        lease: SpanOrMoment = 30,
        max_deliveries: int | None = 10,
        backoff: Backoff | None = None,
        dead_letters: str | None = None,
        unsettled: str = "drop",
        keep_max: Span | None = None,
        where: str | None = None,
        exists_ok: bool = False,
    ) -> Subscription:
        """Creates a subscription: a queue on a topic that has every message from `start` on, which is
        `"beginning"`, `"latest"` or a moment.

        `lease` is how long a consumer holds a message. After `max_deliveries` a message is a dead
        letter (None: never) and goes to the topic `dead_letters`, by default
        `TOPIC.NAME.dead-letters`. `backoff=(1, 2, 300)` lets a message that failed wait: seconds at
        first, factor, seconds at most. `unsettled` says what becomes of messages that retention
        reaches: `"drop"`, `"dead_letter"`, or `"keep"`, for `keep_max` from there on.
        `where` is a filter: other messages are settled when the queue comes to them. Raises
        `SubscriptionExists` if there is one; with `exists_ok` returns it as it is.
        """
        return self._thread.run(
            self._client.create_subscription(
                topic,
                name,
                mode=mode,
                start=start,
                lease=lease,
                max_deliveries=max_deliveries,
                backoff=backoff,
                dead_letters=dead_letters,
                unsettled=unsettled,
                keep_max=keep_max,
                where=where,
                exists_ok=exists_ok,
            )
        )

    def alter_subscription(
        self,
        topic: str,
        name: str,
        *,
        lease: SpanOrMoment | EllipsisType = ...,
        max_deliveries: int | EllipsisType | None = ...,
        backoff: Backoff | EllipsisType | None = ...,
        dead_letters: str | EllipsisType | None = ...,
        unsettled: str | EllipsisType = ...,
        keep_max: Span | EllipsisType | None = ...,
    ) -> Subscription:
        """Changes the given settings, and no others. Leases that are held already keep their end."""
        return self._thread.run(
            self._client.alter_subscription(
                topic,
                name,
                lease=lease,
                max_deliveries=max_deliveries,
                backoff=backoff,
                dead_letters=dead_letters,
                unsettled=unsettled,
                keep_max=keep_max,
            )
        )

    def subscription(self, topic: str, name: str) -> Subscription:
        """A subscription with its backlog, rates and consumers. Raises `SubscriptionNotFound`."""
        return self._thread.run(self._client.subscription(topic, name))

    def subscriptions(self, topic: str | None = None) -> Iterator[Subscription]:
        """All subscriptions by topic and name, or those of one topic; page by page."""
        after: tuple[str, str] | None = ("", "")
        while after is not None:
            page, after = self._thread.run(self._client._subscription_page(topic, after))
            yield from page

    def seek_subscription(self, topic: str, name: str, to: Start, dry_run: bool = False) -> Seek:
        """Sets a subscription to a place, as a reader's `start`: messages before it count as settled,
        those from there on come again, in all partitions at once. Leases end: settling what a consumer
        holds raises `LeaseLost`. With `dry_run` it only returns what that would come to. Raises
        `SubscriptionNotFound`, `OutOfRange`.
        """
        return self._thread.run(self._client.seek_subscription(topic, name, to, dry_run))

    def _peek(self, topic: str, subscription: str, limit: int, where: str | None, ids: Sequence[str]) -> Batch:
        """What a consumer's `peek` gives, without a consumer."""
        return self._thread.run(self._client._peek(topic, subscription, limit, where, ids))

    def delete_subscription(self, topic: str, name: str, missing_ok: bool = False) -> None:
        """Deletes a subscription: its consumers end with `SubscriptionNotFound`. The messages stay in
        the topic. Raises `SubscriptionNotFound`, unless `missing_ok`.
        """
        self._thread.run(self._client.delete_subscription(topic, name, missing_ok))

    def leases(self, topic: str, subscription: str, consumer: str | None = None, older_than: Span | None = None) -> Iterator[Lease]:
        """Who holds what, until when: all leases of a subscription by partition and number, or those
        of one consumer, or those that were granted longer ago than `older_than`; page by page.
        """
        after: tuple[int, int] | None = (0, 0)
        while after is not None:
            page, after = self._thread.run(self._client._lease_page(topic, subscription, consumer, older_than, after))
            yield from page

    def release_leases(self, topic: str, subscription: str, consumer: str | None = None, older_than: Span | None = None) -> int:
        """Takes messages away from the consumers that hold them, of all, of one consumer, or those
        granted longer ago than `older_than`. They are delivered again at once, and that does not
        count. Returns how many they were.
        """
        return self._thread.run(self._client.release_leases(topic, subscription, consumer, older_than))

    def dead_letters(self, topic: str, subscription: str) -> Iterator[Message]:
        """The dead letters of a subscription, by partition and offset: messages of its topic for dead
        letters whose attributes tell why they died, where they came from, and of their last
        delivery. One that was redriven is among them until a consumer has acked it. Raises
        `SubscriptionNotFound`.
        """
        for page in self._letters(topic, subscription):
            yield from page.messages

    def _letters(self, topic: str, subscription: str, where: str | None = None, limit: int | None = None) -> Iterator[LetterMessages]:
        """The same, page by page; only those that pass a filter, and at most so many."""
        pages = self._client._letters(topic, subscription, where, limit)

        async def following() -> LetterMessages | None:
            return await anext(pages, None)

        while (page := self._thread.run(following())) is not None:
            yield page

    def _letter(self, topic: str, subscription: str, message: str) -> LetterMessages:
        """The page of one dead letter."""
        return self._thread.run(self._client._letter(topic, subscription, message))

    def _plan(self, topic: str, subscription: str, ids: Sequence[str] | None, where: str | None, limit: int | None) -> LetterPlan:
        """The dead letters that a redrive or a purge concerns."""
        return self._thread.run(self._client._plan(topic, subscription, ids, where, limit))

    def _redrive(self, topic: str, subscription: str, plan: LetterPlan, rate: float | None, told: Told) -> Answers:
        """Sends these letters back."""
        return self._thread.run(self._client._redrive(topic, subscription, plan, rate, told))

    def _purge(self, topic: str, subscription: str, plan: LetterPlan, told: Told) -> Answers:
        """Deletes these letters."""
        return self._thread.run(self._client._purge(topic, subscription, plan, told))

    def redrive(
        self,
        topic: str,
        subscription: str,
        ids: Iterable[str] | None = None,
        where: str | None = None,
        rate: float | None = None,
        dry_run: bool = False,
    ) -> Answers:
        """Sends dead letters back to their subscription alone: its consumers get them again, while
        readers of the topic and other subscriptions see nothing. All that are dead when it begins, or
        only those of some `ids`, or those that pass the filter `where`; at most `rate` a second. A
        message that dies again is a dead letter again, and is not sent back twice. With `dry_run` it
        only returns what it would do.

        There is one answer per id, or one per letter, with its place among the dead letters. What is
        no dead letter of the subscription, or was redriven already, is refused with `Conflict`; an
        unknown id with `MessageNotFound`. Durable when it returns. Raises `SubscriptionNotFound`.
        """
        return self._thread.run(self._client.redrive(topic, subscription, ids, where, rate, dry_run))

    def explain(self, topic: str, subscription: str, key: bytes | str) -> KeyReport:
        """Says who holds a key of a key-shared subscription, since when, and what it waits for.
        Raises `NotFound` if the broker knows no message of the key that is not settled, and
        `Conflict` if the subscription is not key-shared.
        """
        return self._thread.run(self._client.explain(topic, subscription, key))
