"""Wrong calls in Python, and the one sentence that each of them gets: what is wrong, and what to
do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import bowstring
from bowstring import errors

NAIVE = datetime(2026, 11, 15, 9, 0)  # a wall clock somewhere, which is what people forget
AWARE = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)
Call = Callable[[bowstring.Client, bowstring.Producer], Any]

WRONG: list[tuple[str, Call, type[errors.Error], str]] = [
    # ---- times
    ("naive-at", lambda c, p: p.send(b"", at=NAIVE), errors.InvalidArgument,
     "at=datetime(2026, 11, 15, 9, 0) has no time zone. Use datetime(2026, 11, 15, 9, 0, tzinfo=UTC), or delay= for a span from now."),
    ("naive-expires", lambda c, p: p.send(b"", expires=NAIVE), errors.InvalidArgument,
     "expires=datetime(2026, 11, 15, 9, 0) has no time zone. Use datetime(2026, 11, 15, 9, 0, tzinfo=UTC)."),
    ("date-at", lambda c, p: p.send(b"", at=date(2026, 11, 15)), errors.InvalidArgument,
     "at=date(2026, 11, 15) is a date, which is a whole day somewhere. "
     "Use an aware datetime such as datetime(2026, 11, 15, 9, 0, tzinfo=UTC)."),
    ("text-delay", lambda c, p: p.send(b"", delay="15m"), errors.InvalidArgument,
     "delay='15m' is text, which is for commands and settings but not for Python. Use a timedelta or a number of seconds."),
    ("text-at", lambda c, p: p.send(b"", at="2026-11-15T09:00Z"), errors.InvalidArgument,
     "at='2026-11-15T09:00Z' is text, which is for commands and settings but not for Python. "
     "Use an aware datetime such as datetime(2026, 11, 15, 9, 0, tzinfo=UTC)."),
    ("unix-delay", lambda c, p: p.send(b"", delay=1794740400), errors.InvalidArgument,
     "delay=1794740400 is 56 years, which looks like a Unix time. Use at=datetime.fromtimestamp(1794740400, UTC)."),
    ("unix-at", lambda c, p: p.send(b"", at=1794740400), errors.InvalidArgument,
     "at=1794740400 is of type int. Use at=datetime.fromtimestamp(1794740400, UTC)."),
    ("delay-and-at", lambda c, p: p.send(b"", delay=5, at=AWARE), errors.InvalidArgument,
     "Both delay= and at= were given. Give delay= for a span from now, or at= for a moment."),
    ("nan-delay", lambda c, p: p.send(b"", delay=float("nan")), errors.InvalidArgument,
     "delay=nan is not a length of time. Use a timedelta or a finite number of seconds."),
    ("infinite-timeout", lambda c, p: p.send(b"", timeout=float("inf")), errors.InvalidArgument,
     "timeout=inf is not a length of time. Use a timedelta or a finite number of seconds."),
    ("negative-delay", lambda c, p: p.send(b"", delay=timedelta(seconds=-1)), errors.InvalidArgument,
     "delay=timedelta(days=-1, seconds=86399) is negative. A span is zero or longer."),
    ("no-timeout", lambda c, p: p.send(b"", timeout=0), errors.InvalidArgument,
     "timeout=0 leaves no time. Use a span above 0 s and up to a day."),
    ("moment-as-delay", lambda c, p: p.send(b"", delay=AWARE), errors.InvalidArgument,
     "delay=datetime(2026, 11, 15, 9, 0, tzinfo=UTC) is a moment. "
     "Use at=datetime(2026, 11, 15, 9, 0, tzinfo=UTC), or a timedelta from now."),
    ("eleven-years", lambda c, p: p.send(b"", delay=timedelta(days=4100)), errors.InvalidArgument,
     "delay=timedelta(days=4100) is 11 years. A message may be put off by at most 10 years."),
    ("after-2200", lambda c, p: p.send(b"", at=datetime(2300, 1, 1, tzinfo=UTC)), errors.InvalidArgument,
     "at=datetime(2300, 1, 1, 0, 0, tzinfo=UTC) is after 2200. Use a moment before 2200."),
    ("text-retention", lambda c, p: c.create_topic("t", retention="7d"), errors.InvalidArgument,
     "retention='7d' is text, which is for commands and settings but not for Python. Use a timedelta or a number of seconds."),
    # ---- values
    ("number-as-value", lambda c, p: p.send(7), errors.InvalidArgument,
     "value=7 is of type int. Use bytes or text, or json= to have it written."),
    ("dict-as-value", lambda c, p: p.send({"order": 7}), errors.InvalidArgument,
     "value={'order': 7} is of type dict. Use bytes or text, or json= to have it written."),
    ("value-and-json", lambda c, p: p.send(b"a", json={}), errors.InvalidArgument,
     "Both a value and json= were given. Give the value as bytes or text, or json= to have it written."),
    ("no-json", lambda c, p: p.send(json=object), errors.InvalidArgument, "json=<class 'object'> cannot be written as JSON: "),
    ("number-as-key", lambda c, p: p.send(b"", key=42), errors.InvalidArgument, "key=42 is of type int. Use bytes or text."),
    ("number-as-id", lambda c, p: p.send(b"", id=7), errors.InvalidArgument, "id=7 is of type int. An id is text."),
    ("empty-id", lambda c, p: p.send(b"", id=""), errors.InvalidArgument, "id='' is empty. An id has 1 to 256 bytes as UTF-8."),
    ("number-in-attributes", lambda c, p: p.send(b"", attributes={"total": Decimal(7)}), errors.InvalidArgument,
     "attributes has 'total': Decimal('7'), and Decimal('7') is of type Decimal. "
     "The names and values of attributes are text: {'country': 'CH'}."),
    ("our-attributes", lambda c, p: p.send(b"", attributes={"bowstring-reason": "x"}), errors.InvalidArgument,
     "attributes has 'bowstring-reason'. Names that begin with 'bowstring-' are written by the broker; choose another."),
    ("too-large", lambda c, p: p.send(bytes(17 * 2**20)), errors.TooLarge,
     "the value has 17 MiB, a batch may have 16 MiB here (batch.bytes-max). Split it, or create the topic with payload='reference'."),
    ("empty-batch", lambda c, p: p.send_batch([]), errors.InvalidArgument, "The batch is empty. Send at least one row."),
    ("batch-of-text", lambda c, p: p.send_batch("abc"), errors.InvalidArgument, "A batch cannot be made of str. "),
    ("batch-without-value", lambda c, p: p.send_batch(pa.table({"price": [1]})), errors.InvalidArgument,
     "A batch has no column 'price'. Its columns are key, value, attributes, created, due, expires, id."),
    ("transaction", lambda c, p: p.send(b"", transaction="t"), errors.NotSupported,
     "transactions are not in this version. Omit transaction=."),
    # ---- topics
    ("space-in-a-name", lambda c, p: c.create_topic("my orders"), errors.InvalidArgument,
     "'my orders' is not a topic name. A name has up to 249 letters (A to Z), digits, dots, dashes and underscores, "
     "and begins with a letter or a digit."),
    ("own-topic", lambda c, p: c.create_topic("~/orders"), errors.NotSupported,
     "'~/orders' is a topic of a user's own, for which one has to log in, and this version has no login. Use a name without '~/'."),
    ("no-name", lambda c, p: c.topic(None), errors.InvalidArgument, "the topic name None is of type NoneType. A topic's name is text."),
    ("no-such-topic", lambda c, p: c.topic("order"), errors.TopicNotFound, "there is no topic 'order'. Did you mean 'orders'?"),
    ("there-already", lambda c, p: c.create_topic("orders"), errors.TopicExists,
     "there is a topic 'orders' already. Use exists_ok=True if that is fine."),
    ("no-partitions", lambda c, p: c.create_topic("t", partitions=0), errors.InvalidArgument,
     "partitions=0 is not valid. Use a whole number from 1 to "),
    ("half-a-partition", lambda c, p: c.create_topic("t", partitions=1.5), errors.InvalidArgument, "partitions=1.5 is not valid. "),
    ("window-above-retention", lambda c, p: c.create_topic("t", retention=60, deduplication=600), errors.InvalidArgument,
     "deduplication=600 s is out of range. It is at most the retention, 60 s."),
    ("more-partitions", lambda c, p: c.alter_topic("orders", partitions=8), errors.NotSupported,
     "partitions=8: the number of partitions never changes, because keys would move to other partitions. "
     "Make another topic, and publish there."),
    ("reference", lambda c, p: c.create_topic("t", payload="reference"), errors.NotSupported,
     "payload='reference' is not in this version. "),
    ("number-as-pattern", lambda c, p: list(c.topics(7)), errors.InvalidArgument,
     "pattern=7 is of type int. Use a glob such as 'orders.*', or None for all topics."),
    ("empty-pattern", lambda c, p: list(c.topics("")), errors.InvalidArgument, "pattern='' is empty. "),
    # ---- producers
    ("no-group", lambda c, p: c.producer("orders", group=""), errors.InvalidArgument,
     "group='' is not the name of a group. Use text of 1 to 249 bytes."),
    ("gzip", lambda c, p: c.producer("orders", compression="gzip"), errors.InvalidArgument,
     "compression='gzip' is not known. Use None, 'lz4' or 'zstd'."),
    ("no-bytes", lambda c, p: c.producer("orders", max_bytes="64MiB"), errors.InvalidArgument,
     "max_bytes='64MiB' is not valid. Use a whole number of bytes, such as 64 * 2**20."),
    ("number-to-find", lambda c, p: p.find(7), errors.InvalidArgument, "id=7 is of type int. An id is text."),
    ("text-to-delete", lambda c, p: p.delete("order-7"), errors.InvalidArgument,
     "ids='order-7' is of type str. Use a list of ids: ['order-7']."),
    ("number-to-delete", lambda c, p: p.delete(7), errors.InvalidArgument, "ids=7 is of type int. Use a list of ids: ['order-7']."),
    ("numbers-to-delete", lambda c, p: p.delete([7]), errors.InvalidArgument, "id=7 is of type int. An id is text."),
    ("nothing-to-delete", lambda c, p: p.delete([]), errors.InvalidArgument, "ids is empty. Give at least one id."),
    ("empty-id-to-delete", lambda c, p: p.delete(["a", ""]), errors.InvalidArgument, "id='' is empty. An id has 1 to 256 bytes as UTF-8."),
    ("text-flush", lambda c, p: p.flush("5s"), errors.InvalidArgument, "timeout='5s' is text, which is for commands"),
    # ---- connecting
    ("web-address", lambda c, p: bowstring.connect("http://localhost"), errors.InvalidArgument,
     "server='http://localhost' has the scheme 'http'. "
     "Use 'bowstring://localhost:27769', or several hosts with commas between."),
    ("number-as-server", lambda c, p: bowstring.connect(27769), errors.InvalidArgument, "server=27769 is of type int. Use "),
    ("no-seeds", lambda c, p: bowstring.connect([]), errors.InvalidArgument, "server=[] names no broker. "),
    ("tls", lambda c, p: bowstring.connect("bowstrings://a"), errors.NotSupported,
     "server='bowstrings://a' asks for TLS, which this version does not have. Use 'bowstring://'."),
    ("token", lambda c, p: bowstring.connect(token="secret"), errors.NotSupported,
     "token= is for a login, and this version has none: every broker serves everyone who reaches it. "
     "Omit token=, and restrict who reaches the broker."),
    ("password", lambda c, p: bowstring.connect(user=None, password="secret"), errors.NotSupported, "password= is for a login"),
    ("server-and-context", lambda c, p: bowstring.connect("a", context="shop"), errors.InvalidArgument,
     "both server= and context= were given. Give one of them."),
    ("no-such-context", lambda c, p: bowstring.connect(context="shop"), errors.NotFound,
     "there is no context 'shop'. There is none: bowstring context add NAME SERVER."),
    ("no-time", lambda c, p: bowstring.connect("a", timeout=0), errors.InvalidArgument, "timeout=0 leaves no time. "),
    ("text-time", lambda c, p: bowstring.connect("a", timeout="10s"), errors.InvalidArgument, "timeout='10s' is text"),
    ("number-as-name", lambda c, p: bowstring.connect("a", name=7), errors.InvalidArgument, "name=7 is not a name. Use text of at most "),
    ("no-callback", lambda c, p: bowstring.connect("a", on_drift=5), errors.InvalidArgument, "on_drift=5 cannot be called. "),
    ("nan-drift", lambda c, p: bowstring.connect("a", drift_limit=float("nan")), errors.InvalidArgument, "drift_limit=nan is not a length"),
]  # fmt: skip


@pytest.fixture(scope="module")
def client() -> Iterator[bowstring.Client]:
    with bowstring.Broker.ephemeral(topic_create="on-request") as broker, broker.connect() as connected:
        connected.create_topic("orders")
        yield connected


@pytest.fixture(scope="module")
def producer(client: bowstring.Client) -> Iterator[bowstring.Producer]:
    with client.producer("orders") as made:
        yield made


@pytest.mark.parametrize(("call", "kind", "sentence"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_a_wrong_call_gets_one_sentence(
    client: bowstring.Client, producer: bowstring.Producer, monkeypatch: pytest.MonkeyPatch, tmp_path, call, kind, sentence
):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(errors.Error) as caught:
        call(client, producer)
    assert type(caught.value) is kind
    assert str(caught.value).startswith(sentence)
    assert caught.value.hint or kind is errors.TopicNotFound
    assert "\n" not in str(caught.value)


def test_nothing_of_all_that_was_stored(client: bowstring.Client):
    assert [(topic.name, topic.messages) for topic in client.topics()] == [("orders", 0)]


def test_a_token_in_the_environment_is_not_passed_over(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BOWSTRING_TOKEN", "secret")
    with pytest.raises(errors.NotSupported, match=r"^BOWSTRING_TOKEN is for a login"):
        bowstring.connect("localhost")


def test_a_wrong_address_is_told_with_who_gave_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BOWSTRING_SERVER", "http://a")
    with pytest.raises(errors.InvalidArgument, match=r"^BOWSTRING_SERVER: 'http://a' has the scheme 'http'"):
        bowstring.connect()
