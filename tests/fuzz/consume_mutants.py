"""Requests of consumers that went wrong: endless mutants of good ones.

Half of them are mutated as bytes. The others are right as messages and wrong in what they say: arrays that do not fit together,
numbers at the edges, messages twice, leases of others. A good request names a lease that the consumer holds, so that what is wrong is
met behind the first checks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from bowstring.wire.generated import bowstring_pb2 as pb
from tests.fuzz.mutations import mutations

EDGES = (0, 1, 2, 127, 2**31 - 1, 2**32 - 1)
WIDE_EDGES = (*EDGES, 2**32, 2**61, 2**63 - 1, 2**63, 2**64 - 1)


class HeldRun(NamedTuple):
    """Messages that a consumer holds."""

    partition: int
    grant: int
    offset: int
    rows: int


def good_request(source: random.Random, held: HeldRun, number: int) -> pb.ConsumeRequest:
    """Settles the first message of a run and extends the others, or releases all that the lease has."""
    at, grant = held.partition, held.grant
    if source.random() < 0.2:
        settle = pb.SettleRows(partition=at, request=number, answered=number - 1, grants=[grant], outcomes=[4], runs=[0])
        return pb.ConsumeRequest(settle=[settle])
    outcome, rest = source.choice((1, 2, 3, 4)), held.rows - 1
    settle = pb.SettleRows(
        partition=at, request=number, answered=number - 1, grants=[grant], outcomes=[outcome], runs=[1], offsets=[held.offset], rows=[1]
    )
    extend = pb.ExtendRows(partition=at, number=number, lease=2_000_000, grants=[grant], runs=[1], offsets=[held.offset + 1], rows=[rest])
    credit = pb.ConsumeCredit(messages=source.randrange(1, 50), bytes=1 << 20)
    return pb.ConsumeRequest(settle=[settle], extend=[extend] if rest else [], credit=credit)


def mutants(source: random.Random, held: HeldRun, first: int) -> Iterator[bytes]:
    """Requests without end, numbered from `first`; one in ten is as it should be."""
    number = first
    while True:
        request, chance = good_request(source, held, number), source.random()
        number += 1
        if chance < 0.1:
            yield request.SerializeToString()
        elif chance < 0.5:
            yield next(mutations(source, [request.SerializeToString()]))
        else:
            for _ in range(source.choice((1, 1, 2, 3))):
                source.choice(WRONG)(source, request)
            yield request.SerializeToString()


def parts(source: random.Random, request: pb.ConsumeRequest) -> pb.SettleRows | pb.ExtendRows:
    return source.choice([*request.settle, *request.extend]) if request.settle else request.settle.add()


def arrays_that_do_not_fit(source: random.Random, request: pb.ConsumeRequest) -> None:
    chosen = parts(source, request)
    array = source.choice([chosen.grants, chosen.runs, chosen.offsets, chosen.rows])
    if array and source.random() < 0.5:
        array.pop()
    else:
        array.append(source.choice(EDGES))


def a_number_at_its_edge(source: random.Random, request: pb.ConsumeRequest) -> None:
    chosen = parts(source, request)
    name = source.choice(("grants", "offsets", "rows", "runs"))
    array = getattr(chosen, name)
    if array:
        array[source.randrange(len(array))] = source.choice(WIDE_EDGES if name in ("grants", "offsets") else EDGES)


def an_unknown_outcome(source: random.Random, request: pb.ConsumeRequest) -> None:
    for settle in request.settle:
        settle.outcomes[:] = [source.choice((0, 5, 6, 255, 2**32 - 1)) for _ in settle.outcomes]


def an_unknown_partition(source: random.Random, request: pb.ConsumeRequest) -> None:
    parts(source, request).partition = source.choice((1, 2, 3, *EDGES))


def a_number_that_does_not_rise(source: random.Random, request: pb.ConsumeRequest) -> None:
    for settle in request.settle:
        settle.request = source.choice((0, max(1, settle.request) - 1, settle.request + 5000, *WIDE_EDGES)) % 2**64


def answers_that_never_came(source: random.Random, request: pb.ConsumeRequest) -> None:
    for settle in request.settle:
        settle.answered = source.choice((settle.request, settle.request + 1, *WIDE_EDGES)) % 2**64


def the_same_twice(source: random.Random, request: pb.ConsumeRequest) -> None:
    if source.random() < 0.5:
        request.settle.extend(request.settle[:1])
        return
    for settle in request.settle[:1]:
        settle.grants.extend(settle.grants)
        settle.outcomes.extend(settle.outcomes)
        settle.runs.extend(settle.runs)
        settle.offsets.extend(settle.offsets)
        settle.rows.extend(settle.rows)


def the_lease_of_another(source: random.Random, request: pb.ConsumeRequest) -> None:
    chosen = parts(source, request)
    chosen.grants[:] = [max(0, grant + source.choice((-2, -1, 1, 2, 100))) % 2**64 for grant in chosen.grants]


def very_many_parts(source: random.Random, request: pb.ConsumeRequest) -> None:
    count = source.choice((1_000, 20_000))
    for settle in request.settle[:1]:
        settle.grants.extend(settle.grants[:1] * count)
        settle.outcomes.extend([source.randrange(1, 5)] * count)
        settle.runs.extend([1] * count)
        settle.offsets.extend(range(1, count + 1))
        settle.rows.extend([source.choice((1, 2, 2**32 - 1))] * count)


def very_long_runs(source: random.Random, request: pb.ConsumeRequest) -> None:
    """As many messages as a request may name, in few bytes."""
    count = source.choice((2, 15, 16, 17, 400))
    for settle in request.settle[:1]:
        settle.runs[:] = [count]
        settle.rows[:] = [(1 << 24) // count] * count
        settle.offsets[:] = [1 + run * (1 << 25) for run in range(count)]


def far_apart(source: random.Random, request: pb.ConsumeRequest) -> None:
    """Single messages, as far from each other as offsets go."""
    count = source.choice((2, 15, 16, 100))
    for settle in request.settle[:1]:
        settle.runs[:] = [count]
        settle.rows[:] = [1] * count
        settle.offsets[:] = [1 + run * (2**61 // count) for run in range(count)]


def very_many_settlements(source: random.Random, request: pb.ConsumeRequest) -> None:
    """Of messages that nobody holds, as many as a request may name in each."""
    rows = 1 << source.choice((10, 24))
    for number in range(source.choice((10, 2_000))):
        request.settle.add(
            partition=0,
            request=number + 1,
            answered=number,
            grants=[1],
            outcomes=[1],
            runs=[1],
            offsets=[1],
            rows=[rows],
        )


def a_span_at_its_edge(source: random.Random, request: pb.ConsumeRequest) -> None:
    request.extend.add(partition=0, number=1, lease=source.choice((1, 999_999, 86_400_000_001, *WIDE_EDGES)), grants=[1], runs=[0])


def another_credit(source: random.Random, request: pb.ConsumeRequest) -> None:
    request.credit.messages, request.credit.bytes = source.choice(WIDE_EDGES), source.choice(WIDE_EDGES)


def what_comes_once(source: random.Random, request: pb.ConsumeRequest) -> None:
    match source.randrange(3):
        case 0:
            request.open.topic, request.open.subscription, request.open.consumer = "orders", "shared", "fuzz"
        case 1:
            request.ready = True
        case _:
            request.pong = source.choice(WIDE_EDGES)


def nothing_at_all(source: random.Random, request: pb.ConsumeRequest) -> None:
    del source
    request.Clear()


WRONG: tuple[Callable[[random.Random, pb.ConsumeRequest], None], ...] = (
    arrays_that_do_not_fit,
    arrays_that_do_not_fit,
    a_number_at_its_edge,
    a_number_at_its_edge,
    an_unknown_outcome,
    an_unknown_partition,
    a_number_that_does_not_rise,
    answers_that_never_came,
    the_same_twice,
    the_lease_of_another,
    very_many_parts,
    very_long_runs,
    far_apart,
    very_many_settlements,
    a_span_at_its_edge,
    another_credit,
    what_comes_once,
    nothing_at_all,
)


def good_open(source: random.Random, name: str) -> pb.ConsumeRequest:
    """The first request of a consumer of the subscription `shared`."""
    opening = pb.ConsumeOpen(topic="orders", subscription="shared", consumer=name, instance=source.randbytes(16), lease=1_000_000)
    if source.random() < 0.5:
        opening.create.CopyFrom(pb.CreateSubscriptionRequest(mode="shared", beginning=True, lease=1_000_000))
        opening.held.add(partition=0, grants=[1, 2, 3])
    return pb.ConsumeRequest(open=opening, credit=pb.ConsumeCredit(messages=source.choice((1, 5, 100)), bytes=1 << 20), ready=True)


def wrong_opens(source: random.Random, name: str) -> Iterator[bytes]:
    """First requests without end."""
    while True:
        request = good_open(source, name)
        match source.randrange(8):
            case 0:
                request.open.instance = source.randbytes(source.choice((0, 1, 15, 17, 1000)))
            case 1:
                request.open.lease = source.choice((1, 999_999, 86_400_000_001, 2**63, 2**64 - 1))
            case 2:
                request.open.consumer = source.choice(("", "x" * 250, "a\0b", "\n", "ü" * 125))
            case 3:
                request.open.held.add(partition=source.choice(EDGES), grants=list(WIDE_EDGES) * source.choice((1, 500)))
            case 4:
                request.open.mode = source.choice(("key_shared", "exclusive", "x" * 1000))
            case 5:
                request.open.subscription = source.choice(("", "none", "a b", "x" * 250))
                request.open.ClearField("create")
            case 6:
                request.open.topic_id, request.open.subscription_id = source.choice(WIDE_EDGES), source.choice(WIDE_EDGES)
            case _:
                yield next(mutations(source, [request.SerializeToString()]))
                continue
        yield request.SerializeToString()
