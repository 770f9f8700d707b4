"""The protobuf form of the calls about subscriptions, consumers and leases: part of `protobuf`.

Rows travel as runs in packed arrays, so nothing here goes by message. The batch of a push is put on
without protobuf touching it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from google.protobuf.message import DecodeError

from bowstring import errors
from bowstring.broker.queue.given_settings import GivenSettings
from bowstring.broker.queue.holdings import ConsumerCredit
from bowstring.broker.queue.key_facts import KeyExplanation
from bowstring.broker.queue.lease_list import LeaseFilter, LeasePage
from bowstring.broker.queue.lease_requests import SoughtFacts
from bowstring.broker.queue.opening import ConsumerOpening
from bowstring.broker.queue.peeking import PeekWish
from bowstring.broker.queue.pushes import Grants
from bowstring.broker.queue.seeking import SubscriptionSeek
from bowstring.broker.queue.settlement import NamedRows
from bowstring.broker.queue.subscription_facts import SubscriptionFacts
from bowstring.broker.queue.subscriptions import NewSubscription
from bowstring.broker.reading.fetched import Fetched
from bowstring.broker.reading.places import TopicPlace
from bowstring.core.row_set import NO_ROWS, RowSet
from bowstring.core.settling import LostRows
from bowstring.core.subscription_settings import Backoff
from bowstring.gateway import requests
from bowstring.gateway.consume_calls import (
    ConsumeAnswers,
    ConsumeCall,
    ConsumeLeased,
    ConsumeLost,
    ConsumeOpened,
    ConsumePing,
    ConsumePush,
    ConsumeReply,
    ConsumeRevoked,
    Extending,
    LeasingIds,
    RowsAnswer,
    Settling,
)
from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Pieces
from bowstring.wire import error_messages
from bowstring.wire.codec import pieces
from bowstring.wire.generated import bowstring_pb2 as pb

CONSUME_REQUEST_BYTES_MAX: Final = 1024 * 1024
"""A consumer may settle every other message of large batches."""
RUNS_FEW: Final = 4
"""More runs than these travel as arrays."""


# Consuming


def consume_request(message: Buffer) -> ConsumeCall:
    if len(message) > CONSUME_REQUEST_BYTES_MAX:
        raise errors.InvalidArgument(
            f"a consume request has {len(message)} bytes.", hint=f"The maximum is {CONSUME_REQUEST_BYTES_MAX}: settle less at once."
        )
    try:
        request = pb.ConsumeRequest.FromString(bytes(message))
    except DecodeError:
        raise errors.InvalidArgument("this is not a consume request.", hint="The schema is in proto/bowstring/v1.") from None
    return ConsumeCall(
        opening=_opening(request.open) if request.HasField("open") else None,
        credit=ConsumerCredit(request.credit.messages, request.credit.bytes) if request.HasField("credit") else None,
        settle=[_settling(settle) for settle in request.settle],
        extend=[_extending(extend) for extend in request.extend],
        ready=request.ready,
        pong=request.pong,
        leaving=request.leaving,
        lease=[LeasingIds(each.number, tuple(each.ids)) for each in request.lease],
    )


def _opening(opening: pb.ConsumeOpen) -> ConsumerOpening:
    held: dict[int, list[int]] = {}
    for leases in opening.held:
        held.setdefault(leases.partition, []).extend(leases.grants)
    return ConsumerOpening(
        topic=opening.topic,
        subscription=opening.subscription,
        consumer=opening.consumer,
        instance=opening.instance,
        lease=opening.lease,
        mode=opening.mode,
        where=opening.where,
        topic_id=opening.topic_id,
        subscription_id=opening.subscription_id,
        create=new_subscription(opening.create) if opening.HasField("create") else None,
        held=held,
    )


def new_subscription(request: pb.CreateSubscriptionRequest) -> NewSubscription:
    start = request.WhichOneof("start")
    place = TopicPlace(beginning=True) if start is None else TopicPlace(**{start: getattr(request, start)})
    given = GivenSettings(
        mode=request.mode,
        lease=request.lease if request.HasField("lease") else None,
        max_deliveries=request.max_deliveries if request.HasField("max_deliveries") else None,
        backoff=_backoff(request),
        dead_letters=request.dead_letters,
        unsettled=request.unsettled,
        keep_max=request.keep_max,
        where=request.where,
    )
    return NewSubscription(request.topic, request.name, place, given)


def _backoff(request: pb.CreateSubscriptionRequest | pb.AlterSubscriptionRequest) -> Backoff | None:
    told = request.backoff
    return Backoff(told.first, told.factor, told.most) if request.HasField("backoff") else None


def _settling(settle: pb.SettleRows) -> Settling:
    named = NamedRows(settle.grants, settle.runs, settle.offsets, settle.rows)
    numbers = settle.partition, settle.request, settle.answered
    return Settling(*numbers, named, settle.outcomes, settle.moments, settle.delays, settle.reasons)


def _extending(extend: pb.ExtendRows) -> Extending:
    named = NamedRows(extend.grants, extend.runs, extend.offsets, extend.rows)
    return Extending(extend.partition, extend.number, extend.lease, named)


def consume_answer(reply: ConsumeReply) -> bytes | Pieces:
    match reply:
        case ConsumePush():
            return _push(reply)
        case ConsumeAnswers():
            settled = [_rows_settled(answer) for answer in reply.settled]
            extended = [_rows_extended(answer) for answer in reply.extended]
            message = pb.ConsumeAnswer(now=reply.now, settled=settled, extended=extended)
        case ConsumeOpened():
            fields = reply._asdict()
            message = pb.ConsumeAnswer(now=fields.pop("now"), opened=pb.ConsumeOpened(**fields))
        case ConsumeLost():
            message = pb.ConsumeAnswer(now=reply.now, lost=_held_leases(reply.grants), standing=reply.standing)
        case ConsumeRevoked():
            message = pb.ConsumeAnswer(now=reply.now)
            for grant, rows in reply.parts:
                offsets, lengths = _runs(NO_ROWS if rows is None else rows)
                message.revoked.add(partition=reply.partition, grant=grant, offsets=offsets, rows=lengths)
        case ConsumePing():
            message = pb.ConsumeAnswer(now=reply.now, ping=reply.number)
        case ConsumeLeased():
            return _leased(reply)
    return message.SerializeToString()


def _push(reply: ConsumePush) -> bytes | Pieces:
    fetched, lease = reply.pushed
    message = pb.ConsumeAnswer(now=reply.now)
    fill_page(message.page, fetched)
    told = message.lease
    told.grant, told.until, told.again = lease.grant, lease.until, lease.again
    told.retry_counts.extend(lease.retry_counts)
    told.retry_rows.extend(lease.retry_rows)
    if lease.asked:
        told.asked = lease.asked
    if lease.topic:
        told.topic, told.partition = lease.topic, lease.partition
    serialised = message.SerializeToString()
    return serialised if fetched.data is None else pieces(serialised, fetched.data)


def _leased(reply: ConsumeLeased) -> bytes:
    own = [pb.OwnLease(**each._asdict()) for each in reply.leased.own]
    refused = [pb.RefusedId(row=row, error=error_messages.to_message(error)) for row, error in sorted(reply.leased.refused.items())]
    leased = pb.IdsLeased(number=reply.number, own=own, refused=refused)
    return error_messages.serialised(pb.ConsumeAnswer(now=reply.now, leased=leased))


def fill_page(page: pb.FetchAnswer, fetched: Fetched) -> None:
    """Everything about rows but their batch, and the time."""
    page.partition = fetched.partition
    page.next_offset = fetched.next_offset
    page.arrived = fetched.arrived
    page.schema = fetched.schema
    page.columns = fetched.columns
    page.rows = fetched.rows
    page.stored_bytes = fetched.size
    if len(fetched.runs) > RUNS_FEW:
        _scatter(page.scattered, fetched)
    else:
        for offset, rows, arrived in fetched.runs.tolist():
            page.runs.add(offset=offset, rows=rows, arrived=0 if arrived == fetched.arrived else arrived)
    for origin in fetched.origins:
        page.origins.add(rows=origin.rows, producer=origin.producer, number=origin.number, first_row=origin.first_row, group=origin.group)


def _scatter(scattered: pb.ScatteredRows, fetched: Fetched) -> None:
    """Runs as arrays: a message for each would take ten times as long."""
    offsets, rows, arrived = fetched.runs.T
    scattered.offsets.extend(np.diff(offsets, prepend=0).tolist())
    if (rows != 1).any():
        scattered.rows.extend(rows.tolist())
    if (arrived != fetched.arrived).any():
        starts = np.flatnonzero(np.diff(arrived, prepend=-1))
        scattered.arrived.extend(arrived[starts].tolist())
        scattered.arrived_rows.extend(np.add.reduceat(rows, starts).tolist())


def _rows_settled(answer: RowsAnswer) -> pb.RowsSettled:
    return pb.RowsSettled(partition=answer.partition, request=answer.number, refused=_refused(answer.refused))


def _rows_extended(answer: RowsAnswer) -> pb.RowsExtended:
    return pb.RowsExtended(partition=answer.partition, number=answer.number, until=answer.until, refused=_refused(answer.refused))


def _refused(refused: Iterable[LostRows]) -> list[pb.RefusedRows]:
    told: list[pb.RefusedRows] = []
    for grant, rows, standing, holder, until in refused:
        offsets, lengths = ([], []) if rows is None else _runs(rows)
        where = "" if standing is None else standing.value
        told.append(pb.RefusedRows(grant=grant, offsets=offsets, rows=lengths, standing=where, holder=holder, until=until))
    return told


def _runs(rows: RowSet) -> tuple[list[int], list[int]]:
    """The first offset of each run, and how many rows it has."""
    if rows.is_run:
        return ([rows.first], [rows.stop - rows.first]) if rows else ([], [])
    runs = rows.runs()
    return [offset for offset, _ in runs], [count for _, count in runs]


def _held_leases(grants: Grants) -> list[pb.HeldLeases]:
    return [pb.HeldLeases(partition=partition, grants=numbers) for partition, numbers in grants.items()]


# Subscriptions


def create_subscription(request: pb.CreateSubscriptionRequest) -> requests.CreateSubscriptionRequest:
    return requests.CreateSubscriptionRequest(new_subscription(request), request.exists_ok)


def alter_subscription(request: pb.AlterSubscriptionRequest) -> requests.AlterSubscriptionRequest:
    given = GivenSettings(
        lease=request.lease if request.HasField("lease") else None,
        max_deliveries=request.max_deliveries if request.HasField("max_deliveries") else None,
        backoff=_backoff(request),
        dead_letters=request.dead_letters if request.HasField("dead_letters") else None,
        unsettled=request.unsettled if request.HasField("unsettled") else None,
        keep_max=request.keep_max if request.HasField("keep_max") else None,
    )
    return requests.AlterSubscriptionRequest(request.topic, request.name, given)


def list_subscriptions(request: pb.ListSubscriptionsRequest) -> requests.ListSubscriptionsRequest:
    return requests.ListSubscriptionsRequest(request.topic, (request.after_topic, request.after_name), request.limit)


def subscription(facts: SubscriptionFacts) -> pb.Subscription:
    message = pb.Subscription(
        topic=facts.topic,
        name=facts.name,
        id=facts.id,
        topic_id=facts.topic_id,
        mode=facts.settings.mode,
        lease=facts.settings.lease,
        max_deliveries=facts.settings.max_deliveries,
        backoff=None if facts.settings.backoff is None else pb.Backoff(**facts.settings.backoff._asdict()),
        dead_letters=facts.dead_letters,
        unsettled=facts.settings.unsettled,
        keep_max=facts.settings.keep_max,
        where=facts.settings.where,
        created=facts.created,
        backlog=facts.backlog,
        leased=facts.leased,
        oldest=facts.oldest,
        delivered_rate=facts.rates.delivered,
        acked_rate=facts.rates.acked,
        nacked_rate=facts.rates.nacked,
        expired_rate=facts.rates.expired,
        **facts.letters._asdict(),
    )
    for partition in facts.partitions:
        message.partitions.add(**partition._asdict())
    for consumer in facts.consumers:
        message.consumers.add(**consumer._asdict())
    return message


def subscription_page(page: requests.SubscriptionPage) -> pb.ListSubscriptionsAnswer:
    return pb.ListSubscriptionsAnswer(subscriptions=map(subscription, page.subscriptions), more=page.more)


def seek_subscription(request: pb.SeekSubscriptionRequest) -> requests.SeekSubscriptionRequest:
    offsets = {each.partition: each.offset for each in request.offsets}
    place = request.WhichOneof("to") or ""
    return requests.SeekSubscriptionRequest(SubscriptionSeek(request.topic, request.name, place, offsets, request.dry_run))


def subscription_sought(facts: list[SoughtFacts]) -> pb.SeekSubscriptionAnswer:
    return pb.SeekSubscriptionAnswer(partitions=[pb.SoughtPartition(**each._asdict()) for each in facts])


def peek(request: pb.PeekRequest) -> requests.PeekRequest:
    return requests.PeekRequest(PeekWish(request.topic, request.subscription, request.limit, request.where, tuple(request.ids)))


def peeked(pages: list[Fetched]) -> pb.PeekAnswer:
    answer = pb.PeekAnswer()
    for fetched in pages:
        page = answer.pages.add()
        fill_page(page, fetched)
        page.batch = bytes(fetched.data or b"")
    return answer


def subscription_deleted(deleted: bool) -> pb.DeleteSubscriptionAnswer:
    return pb.DeleteSubscriptionAnswer(deleted=deleted)


# Leases


def list_leases(request: pb.ListLeasesRequest) -> requests.ListLeasesRequest:
    return requests.ListLeasesRequest(_lease_filter(request), (request.after_partition, request.after_grant), request.limit)


def release_leases(request: pb.ReleaseLeasesRequest) -> requests.ReleaseLeasesRequest:
    return requests.ReleaseLeasesRequest(_lease_filter(request))


def _lease_filter(request: pb.ListLeasesRequest | pb.ReleaseLeasesRequest) -> LeaseFilter:
    return LeaseFilter(request.topic, request.subscription, request.consumer, request.older_than)


def lease_page(page: LeasePage) -> pb.ListLeasesAnswer:
    message = pb.ListLeasesAnswer(more=page.more, now=page.now)
    for partition, grant, consumer, granted, until, runs in page.leases:
        offsets, rows = [offset for offset, _ in runs], [count for _, count in runs]
        message.leases.add(partition=partition, grant=grant, consumer=consumer, granted=granted, until=until, offsets=offsets, rows=rows)
    return message


def leases_released(messages: int) -> pb.ReleaseLeasesAnswer:
    return pb.ReleaseLeasesAnswer(messages=messages)


def explain_key(request: pb.ExplainKeyRequest) -> requests.ExplainKeyRequest:
    return requests.ExplainKeyRequest(request.topic, request.subscription, request.key)


def key_explanation(explanation: KeyExplanation) -> pb.ExplainKeyAnswer:
    message = pb.ExplainKeyAnswer(now=explanation.now, consumers=explanation.consumers)
    for standing in explanation.standings:
        message.standings.add(**standing._asdict())
    return message
