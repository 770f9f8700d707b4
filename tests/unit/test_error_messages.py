"""Errors as they travel: the same error has the same bytes, in every process."""

from __future__ import annotations

import pytest

from bowstring import errors
from bowstring.gateway.protobuf import PROTOBUF
from bowstring.gateway.publish_session import BatchAnswer
from bowstring.gateway.requests import DeletedMessages
from bowstring.wire import error_messages
from bowstring.wire.generated import bowstring_pb2 as pb

NAMES = sorted(f"detail-{number:02}" for number in range(12))
ERROR = errors.Conflict("it is taken.", hint="Wait.", details={name: "x" for name in reversed(NAMES)})

FORMS = {
    "alone": lambda: error_messages.to_bytes(ERROR),
    "of a batch": lambda: PROTOBUF["Publish"].encode(BatchAnswer(0, 1, 2, ERROR)),
    "of a message": lambda: PROTOBUF["DeleteMessages"].encode(DeletedMessages(7, [ERROR])),
}


@pytest.mark.parametrize("form", FORMS)
def test_details_are_in_the_order_of_their_names(form: str):
    written = bytes(FORMS[form]())
    places = [written.index(name.encode()) for name in NAMES]
    assert places == sorted(places)


def test_an_error_that_has_travelled_has_its_details_in_the_same_order():
    read = error_messages.from_message(pb.Error.FromString(error_messages.to_bytes(ERROR)))
    assert list(read.details) == NAMES
    assert read.details == ERROR.details
