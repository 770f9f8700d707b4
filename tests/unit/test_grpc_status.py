"""Errors cross the wire as themselves; foreign ones become what the caller should do about them."""

from __future__ import annotations

import pytest

from bowstring import errors
from bowstring.wire import error_messages, grpc_status
from bowstring.wire.generated import bowstring_pb2 as pb

CLASSES = [getattr(errors, name) for name in errors.__all__ if isinstance(getattr(errors, name), type)]
GRPC_CODES = set(
    "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED RESOURCE_EXHAUSTED "
    "FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED".split()
)

# The table of API.md 4, in full.
EXPECTED = {
    "Error": "INTERNAL",
    "Rejected": "INVALID_ARGUMENT",
    "InvalidArgument": "INVALID_ARGUMENT",
    "TooLarge": "INVALID_ARGUMENT",
    "PartlyRefused": "INVALID_ARGUMENT",
    "NotFound": "NOT_FOUND",
    "TopicNotFound": "NOT_FOUND",
    "SubscriptionNotFound": "NOT_FOUND",
    "MessageNotFound": "NOT_FOUND",
    "TransactionNotFound": "NOT_FOUND",
    "OutOfRange": "OUT_OF_RANGE",
    "LoginRequired": "UNAUTHENTICATED",
    "NotAuthorised": "PERMISSION_DENIED",
    "NotSupported": "UNIMPLEMENTED",
    "Conflict": "FAILED_PRECONDITION",
    "AlreadyExists": "ALREADY_EXISTS",
    "TopicExists": "ALREADY_EXISTS",
    "SubscriptionExists": "ALREADY_EXISTS",
    "NameInUse": "ALREADY_EXISTS",
    "LeaseLost": "FAILED_PRECONDITION",
    "Leased": "FAILED_PRECONDITION",
    "Merged": "FAILED_PRECONDITION",
    "LeaseTaken": "ABORTED",
    "TransactionEnded": "ABORTED",
    "Unavailable": "UNAVAILABLE",
    "Full": "RESOURCE_EXHAUSTED",
    "QuotaExceeded": "RESOURCE_EXHAUSTED",
    "DeadlinePassed": "DEADLINE_EXCEEDED",
    "OutcomeUnknown": "UNKNOWN",
    "Corrupt": "DATA_LOSS",
}


def test_the_table_names_every_class():
    assert EXPECTED.keys() == {cls.__name__ for cls in CLASSES}


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_has_its_code_and_comes_back_as_itself(cls: type[errors.Error]):
    error = cls("what was wrong.", hint="What would be right.", details={"topic": "orders"})
    code, text, error_bytes = grpc_status.to_status(error)
    assert code == EXPECTED[cls.__name__]
    assert text == "what was wrong. What would be right."
    back = grpc_status.from_status(code, text, error_bytes)
    assert type(back) is cls
    assert (back.message, back.hint, back.details, str(back)) == (error.message, error.hint, error.details, str(error))
    assert type(error_messages.from_message(error_messages.to_message(error))) is cls


def test_codes_are_those_of_grpc():
    assert set(grpc_status.CODES.values()) <= GRPC_CODES


def test_a_kind_of_a_later_version_is_the_nearest_class_and_keeps_its_kind():
    later = pb.Error(kind="moon-phase", message="too full.", hint="Wait.").SerializeToString()
    error = grpc_status.from_status("UNAVAILABLE", "too full.", later)
    assert type(error) is errors.Unavailable
    assert error.details == {"kind": "moon-phase"}
    assert error.retryable
    assert type(error_messages.from_message(pb.Error(kind="moon-phase", message="m"))) is errors.Error


def test_error_bytes_that_are_none_of_ours_are_ignored():
    assert type(grpc_status.from_status("NOT_FOUND", "gone", b"\xff\xff\xff")) is errors.NotFound


@pytest.mark.parametrize(
    ("code", "text", "changes", "reads"),
    [
        ("UNAVAILABLE", "connection refused", errors.Unavailable, errors.Unavailable),
        ("DEADLINE_EXCEEDED", "Deadline Exceeded", errors.OutcomeUnknown, errors.Unavailable),
        ("CANCELLED", "RPC cancelled", errors.OutcomeUnknown, errors.Unavailable),
        ("UNKNOWN", "Stream removed", errors.OutcomeUnknown, errors.Unavailable),
        ("INTERNAL", "Received RST_STREAM with error code 2", errors.Unavailable, errors.Unavailable),
        ("INTERNAL", "a bug", errors.Error, errors.Error),
        ("UNIMPLEMENTED", "Method not found!", errors.NotSupported, errors.NotSupported),
        ("RESOURCE_EXHAUSTED", "SERVER: Received message larger than max (9 vs. 4)", errors.TooLarge, errors.TooLarge),
        ("RESOURCE_EXHAUSTED", "Concurrent RPC limit exceeded!", errors.Full, errors.Full),
        ("PERMISSION_DENIED", "says a proxy", errors.NotAuthorised, errors.NotAuthorised),
        ("UNAUTHENTICATED", "", errors.LoginRequired, errors.LoginRequired),
        ("DATA_LOSS", "", errors.Error, errors.Error),
    ],
)
def test_foreign_errors(code: str, text: str, changes: type, reads: type):
    assert type(grpc_status.from_status(code, text, repeatable=False)) is changes
    error = grpc_status.from_status(code, text, repeatable=True)
    assert type(error) is reads
    assert code in str(error) + error.details.get("grpc", "")


@pytest.mark.parametrize("code", sorted(GRPC_CODES - {"OK"}))
def test_every_code_of_grpc_gives_an_error(code: str):
    assert isinstance(grpc_status.from_status(code, "text"), errors.Error)


def test_an_error_that_quotes_much_fits_into_metadata():
    long = "€" * 100_000
    error = errors.InvalidArgument(long, hint=long, details={"a": long, "b": "kept"})
    _, text, error_bytes = grpc_status.to_status(error)
    assert len(text.encode()) <= 300
    assert len(error_bytes) * 4 / 3 + len(text.encode()) * 3 < 8000
    back = grpc_status.from_status("INVALID_ARGUMENT", text, error_bytes)
    assert back.message.startswith("€€€")
    assert back.message.endswith("€…")


def test_text_that_is_not_unicode_crosses_too():
    error = errors.NotFound("there is no topic '\udcff'.", details={"topic": "\udcff"})
    _, _, error_bytes = grpc_status.to_status(error)
    assert grpc_status.from_status("NOT_FOUND", "", error_bytes).message == "there is no topic '?'."
