"""The one table of settings: flags, environment, keywords, and errors that name what was written."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from pathlib import Path

import pytest

from bowstring import settings
from bowstring.errors import InvalidArgument
from bowstring.settings import MIB, Settings, from_environment, from_flags, from_keywords, load


def refusal(*layers: settings.Layer) -> str:
    with pytest.raises(InvalidArgument) as caught:
        load(*layers)
    return str(caught.value)


def test_nothing_given_is_the_defaults():
    assert load() == Settings()


def test_a_flag_beats_the_environment_beats_the_default():
    flags = from_flags({"topic_retention": "30d", "listen": None})
    environment = from_environment({"BOWSTRING_TOPIC_RETENTION": "1h", "BOWSTRING_LISTEN": "0.0.0.0:1", "PATH": "x"})
    found = load(flags, environment)
    assert (found.topic_retention, found.listen, found.batch_bytes_max) == (30 * 86400, "0.0.0.0:1", 16 * MIB)


def test_own_defaults_are_weaker_than_any_layer():
    defaults = {"listen": "127.0.0.1:0", "topic_create": "on-publish"}
    assert load(defaults=defaults).topic_create == "on-publish"
    assert load(from_keywords({"topic_create": "on-request"}), defaults=defaults).topic_create == "on-request"


@pytest.mark.parametrize(
    ("text", "size"),
    [("16MiB", 16 * MIB), ("500kB", 500_000), ("1MB", 1_000_000), ("4096", 4096), ("1.5 MiB", 3 * MIB // 2), ("2048B", 2048)],
)
def test_sizes(text: str, size: int):
    assert load(from_flags({"batch_bytes_max": text})).batch_bytes_max == size


def test_keywords_take_python_values():
    found = load(
        from_keywords({"topic_retention": timedelta(days=1), "batch_bytes_max": 4 * MIB, "data": Path("a/b"), "connections_max": 7})
    )
    assert (found.topic_retention, found.batch_bytes_max, found.data, found.connections_max) == (86400, 4 * MIB, "a/b", 7)
    assert load(from_keywords({"data": None})).data == ""


BAD = [
    ("topic_retention", "7 dayz", '--topic-retention = "7 dayz" is not a span of time. Use "7d", "12h"'),
    ("topic_retention", "0s", '--topic-retention = "0s" is too short. It is at least 1s.'),
    ("topic_retention", "-5s", "is not a span of time"),
    ("batch_bytes_max", "16MX", '--batch-bytes-max = "16MX" is not a size. Use "16MiB", "500kB" or a number of bytes.'),
    ("batch_bytes_max", "-1", "is not a size"),
    ("batch_bytes_max", "", "is not a size"),
    ("batch_bytes_max", "10", '--batch-bytes-max = "10" is out of range. It is from 1KiB to 1GiB.'),
    ("batch_bytes_max", "99999999GiB", "is out of range"),
    ("connections_max", "many", '--connections-max = "many" is not a number.'),
    ("connections_max", "0", "is out of range. It is from 1 to 1000000."),
    ("connections_max", "1.5", "is not a number"),
    ("connections_max", "٣", "is not a number"),
    ("batch_bytes_max", "9" * 400, "is not a size"),
    ("store", "disk", '--store = "disk" is not known. Use "local" or "memory".'),
    ("topic_create", "", "is not known"),
    ("data", "a\0b", "is not text"),
]


@pytest.mark.parametrize(("name", "text", "said"), BAD)
def test_wrong_values_are_named_as_they_were_written(name: str, text: str, said: str):
    assert said in refusal(from_flags({name: text}))


def test_errors_name_the_variable_and_the_keyword():
    assert refusal(from_environment({"BOWSTRING_BATCH_BYTES_MAX": "x"})).startswith('BOWSTRING_BATCH_BYTES_MAX = "x"')
    assert refusal(from_keywords({"batch_bytes_max": 1.5})).startswith("batch_bytes_max = 1.5 is not a size")
    assert refusal(from_keywords({"connections_max": True})).startswith("connections_max = True")
    assert refusal(from_keywords({"topic_retention": timedelta(0)})).startswith("topic_retention = 0 s is too short")
    assert refusal(from_keywords({"topic_retention": float("nan")})).startswith("topic_retention=nan")
    assert refusal(from_keywords({"listen": 27769})).startswith("listen = 27769 is not text")


def test_values_that_do_not_go_together():
    said = refusal(from_flags({"segment_bytes_first": "512MiB"}))
    assert said == "--segment-bytes-first = 512MiB is more than segment_bytes_max = 256MiB. It must not be larger."
    said = refusal(from_flags({"topic_retention": "1m", "topic_deduplication": "10m"}))
    assert "--topic-deduplication = 10m is more than --topic-retention = 1m" in said


def test_a_retention_below_the_default_window_shortens_the_window():
    assert load(from_flags({"topic_retention": "1m"})).topic_deduplication == 60
    assert load(from_flags({"topic_retention": "1h"})).topic_deduplication == 600


def test_unknown_settings():
    with pytest.raises(InvalidArgument, match=r"no setting BOWSTRING_TOPIC_RETENTOIN\. Did you mean BOWSTRING_TOPIC_RETENTION\?"):
        from_environment({"BOWSTRING_TOPIC_RETENTOIN": "1d"})
    with pytest.raises(InvalidArgument, match=r"no setting retention\."):
        from_keywords({"retention": 5})


@pytest.mark.parametrize(
    "variable", ["SERVER", "TOKEN", "CONTEXT", "CONFIG", "SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_GRPC", "PORT", "PORT_27769_TCP_ADDR"]
)
def test_variables_of_others_are_left_alone(variable: str):
    assert from_environment({f"BOWSTRING_{variable}": "tcp://10.0.0.1:1"}) == {}


@pytest.mark.parametrize("name", [entry.name for entry in dataclasses.fields(Settings) if entry.name != "given"])
def test_every_setting_is_documented_and_its_default_parses(name: str):
    kind = settings.kind_of(name)
    assert kind.meaning.endswith(".")
    default = getattr(Settings(), name)
    assert kind.parse(kind.show(default), name) == default
    assert settings.variable_of(name) == "BOWSTRING_" + name.upper()
    assert settings.flag_of(name).replace("-", "_") == "__" + name


def test_where_data_is_kept_by_default():
    assert settings.default_data({"HOME": "/h/ada"}) == "/h/ada/.local/share/bowstring"
    assert settings.default_data({"HOME": "/h/ada", "XDG_DATA_HOME": "/x"}) == "/x/bowstring"
    with pytest.raises(InvalidArgument, match="Name a data directory"):
        settings.default_data({})
