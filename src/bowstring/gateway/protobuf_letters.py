"""The calls about dead letters as protobuf messages: what came as values, and values as what goes out."""

from __future__ import annotations

from collections.abc import Iterable

from bowstring import errors
from bowstring.broker.queue.letter_list import LIMIT_MAX, LetterPage, LetterRows, LetterWish
from bowstring.broker.queue.redriving import LetterRequest, LettersDone
from bowstring.core.row_set import RowSet
from bowstring.gateway.protobuf_queue import fill_page
from bowstring.wire.error_messages import to_message
from bowstring.wire.generated import bowstring_pb2 as pb

OFFSET_MAX = 1 << 62


def list_dead_letters(request: pb.ListDeadLettersRequest) -> LetterWish:
    after = request.after_partition, min(request.after_offset, OFFSET_MAX)
    ids = tuple(request.ids)
    return LetterWish(request.topic, request.subscription, request.where, ids, after, request.limit, request.places, request.redriven_too)


def letter_page(page: LetterPage) -> pb.ListDeadLettersAnswer:
    answer = pb.ListDeadLettersAnswer(dead_letters=page.topic, letters=_told(page.letters), redriven=_told(page.redriven))
    for fetched in page.pages:
        each = answer.pages.add()
        fill_page(each, fetched)
        each.batch = bytes(fetched.data or b"")
    if page.following is not None:
        answer.more = True
        answer.next_partition, answer.next_offset = page.following
    for outcome in page.found:
        if isinstance(outcome, errors.Error):
            answer.found.add(refused=to_message(outcome))
        else:
            answer.found.add(partition=outcome.partition, offset=outcome.offset)
    return answer


def redrive(request: pb.RedriveRequest | pb.PurgeDeadLettersRequest) -> LetterRequest:
    return LetterRequest(request.topic, request.subscription, _letters(request.letters))


def redriven(done: LettersDone) -> pb.RedriveAnswer:
    return pb.RedriveAnswer(redriven=done.changed, gone=_told(done.others))


def purged(done: LettersDone) -> pb.PurgeDeadLettersAnswer:
    return pb.PurgeDeadLettersAnswer(purged=done.changed, held=_told(done.others))


def _letters(given: Iterable[pb.LetterRows]) -> LetterRows:
    """Raises InvalidArgument for runs that make no sense."""
    letters: LetterRows = {}
    for part in given:
        if len(part.offsets) != len(part.rows):
            raise errors.InvalidArgument(f"{len(part.offsets)} runs have {len(part.rows)} lengths.", hint="Each run has one.")
        if any(offset < 1 or offset > OFFSET_MAX for offset in part.offsets):
            raise errors.InvalidArgument("an offset is out of range.", hint="Offsets count from 1.")
        if (count := sum(part.rows)) > LIMIT_MAX:
            raise errors.InvalidArgument(f"{count} dead letters were named.", hint=f"One request takes 1 to {LIMIT_MAX}.")
        rows = RowSet.of_runs(zip(part.offsets, part.rows, strict=True))
        letters[part.partition] = RowSet.union((letters[part.partition], rows)) if part.partition in letters else rows
    return letters


def _told(letters: LetterRows) -> list[pb.LetterRows]:
    told: list[pb.LetterRows] = []
    for partition, rows in letters.items():
        runs = rows.runs()
        told.append(pb.LetterRows(partition=partition, offsets=[offset for offset, _ in runs], rows=[count for _, count in runs]))
    return told
