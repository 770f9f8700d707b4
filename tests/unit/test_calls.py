"""The table of calls is the schema's, and says of each call what a lost answer means."""

from __future__ import annotations

import re
from pathlib import Path

from bowstring import client, gateway
from bowstring.gateway.gateway import HANDLERS
from bowstring.gateway.protobuf import PROTOBUF
from bowstring.ports.calls import CALLS
from bowstring.wire.generated import bowstring_pb2 as pb


def test_the_table_has_the_calls_of_the_schema_in_their_order():
    schema = {
        method.name: method.client_streaming and method.server_streaming for method in pb.DESCRIPTOR.services_by_name["Broker"].methods
    }
    assert [(name, call.stream) for name, call in CALLS.items()] == list(schema.items())


def test_the_gateway_serves_every_call_of_the_table():
    assert HANDLERS.keys() | {"Hello"} == {name for name, call in CALLS.items() if not call.stream}


def test_the_codec_has_a_form_for_every_call_of_the_table():
    assert list(PROTOBUF) == list(CALLS)


def test_nothing_of_the_gateway_but_its_codec_knows_protobuf():
    folder = Path(gateway.__file__).parent
    sources = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.py")}
    knowing = {name for name, text in sources.items() if re.search("_pb2|google|wire.error_messages", text)}
    assert knowing == {"protobuf.py", "protobuf_letters.py", "protobuf_queue.py"}


def test_a_call_that_can_be_told_to_ignore_its_own_work_is_not_repeatable_without():
    """`exists_ok` and `missing_ok` are there for this reason, so they tell which calls have such an
    error."""
    messages = pb.DESCRIPTOR.message_types_by_name
    forgiving = {name for name in CALLS if {"exists_ok", "missing_ok"} & set(messages[f"{name}Request"].fields_by_name)}
    assert forgiving == {name for name, call in CALLS.items() if not call.repeatable}


def test_the_kit_repeats_only_what_is_repeatable():
    folder = Path(client.__file__).parent
    used = {kind: set[str]() for kind in ("call", "_ask", "change", "_change", "stream")}
    for path in folder.glob("*.py"):
        for kind, name in re.findall(r'\.(call|_ask|change|_change|stream)\(\s*"(\w+)"', path.read_text(encoding="utf-8")):
            used[kind].add(name)
    assert used["change"] | used["_change"] == {name for name, call in CALLS.items() if not call.repeatable}
    assert used["call"] | used["_ask"] == {name for name, call in CALLS.items() if call.repeatable and not call.stream}
    assert used["stream"] == {name for name, call in CALLS.items() if call.stream}
