"""`bowstring serve --check` refuses what `bowstring serve` refuses, in the same words, and changes nothing."""

from __future__ import annotations

import shutil
import socket
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.process.serving import run, serving


def both(*arguments: str, variables: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """What --check says of settings that do not work, after seeing that `serve` says the same."""
    checked = run("serve", *arguments, "--check", variables=variables)
    served = run("serve", *arguments, variables=variables)
    assert (checked.returncode, checked.stdout, checked.stderr) == (served.returncode, "", served.stderr)
    assert len(checked.stderr.splitlines()) == 1
    return checked


@pytest.mark.parametrize(
    ("listen", "said"),
    [
        (":27803", '--listen = ":27803" does not say on which address. Use "127.0.0.1:27803" for this machine alone'),
        ("here", '--listen = "here" is not an address'),
        ("127.0.0.1:70000", '--listen = "127.0.0.1:70000" is not an address'),
        ("::1:27803", '--listen = "::1:27803" is not an address'),
        ("203.0.113.7:0", "203.0.113.7 is not an address of this machine"),
        ("nowhere.invalid:1", "there is no host nowhere.invalid"),
    ],
)
def test_an_address_that_cannot_be_listened_on(tmp_path: Path, listen: str, said: str):
    refused = both("--data", str(tmp_path / "data"), "--listen", listen)
    assert refused.returncode == 2
    assert said in refused.stderr


def test_a_port_that_another_program_has(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        refused = both("--data", str(tmp_path / "data"), "--listen", f"127.0.0.1:{other.getsockname()[1]}")
    assert refused.returncode == 3
    assert "is in use by another program" in refused.stderr


def test_a_socket_in_a_folder_that_is_not_there(tmp_path: Path):
    assert both("--data", str(tmp_path / "data"), "--listen", f"unix:{tmp_path}/no/socket").returncode == 3


def plain_file(data: Path) -> None:
    shutil.rmtree(data, ignore_errors=True)
    data.touch()


def later_format(data: Path) -> None:
    catalog = sqlite3.connect(data / "catalog.sqlite")
    catalog.execute("PRAGMA user_version = 999")
    catalog.close()


def not_ours(data: Path) -> None:
    (data / "catalog.sqlite").unlink()
    catalog = sqlite3.connect(data / "catalog.sqlite")
    catalog.execute("CREATE TABLE theirs (x)")
    catalog.close()


def no_catalog(data: Path) -> None:
    (data / "catalog.sqlite").unlink()
    (data / "segment-0000000100000001").write_bytes(bytes(4096))


@pytest.mark.parametrize(
    ("spoil", "code", "said"),
    [
        (plain_file, 2, "is not a directory"),
        (later_format, 1, "has catalog format 999; this software reads the formats up to"),
        (not_ours, 1, "is the database of another application"),
        (no_catalog, 5, "segments but no catalog.sqlite"),
    ],
)
def test_a_directory_that_is_not_a_brokers(tmp_path: Path, spoil: Callable[[Path], None], code: int, said: str):
    data = tmp_path / "data"
    with serving("--data", str(data)) as served:
        served.end()
    spoil(data)
    refused = both("--data", str(data), "--listen", "127.0.0.1:0")
    assert refused.returncode == code
    assert said in refused.stderr


def test_a_catalog_that_is_damaged(tmp_path: Path):
    (tmp_path / "catalog.sqlite").write_bytes(b"this is no database at all" * 1000)
    for arguments in (["--check"], []):
        refused = run("serve", "--data", str(tmp_path), "--listen", "127.0.0.1:0", *arguments)
        assert refused.returncode == 5
        assert "catalog.sqlite" in refused.stderr


def test_settings_of_a_broker_that_runs_are_right(tmp_path: Path):
    with serving("--data", str(tmp_path)) as served:
        checked = run("serve", "--data", str(tmp_path), "--listen", served.address, "--check")
        assert (checked.returncode, checked.stdout) == (0, "The settings are right.\n")
        assert f"is served by {served.address} (pid {served.process.pid})" in checked.stderr


@pytest.mark.parametrize("form", ["flag", "variable", "file"])
def test_a_tilde_is_the_home_directory(tmp_path: Path, form: str):
    home, variables = tmp_path / "home", {"HOME": str(tmp_path / "home")}
    home.mkdir()
    (home / "bowstring.toml").write_text('data = "~/kept/data"\n' if form == "file" else "")
    arguments = ["--data", "~/kept/data"] if form == "flag" else []
    if form == "variable":
        variables["BOWSTRING_DATA"] = "~/kept/data"
    with serving("--config", "~/bowstring.toml", *arguments, variables=variables) as served:
        assert served.place == str(home / "kept" / "data")
        served.end()
    assert (home / "kept" / "data" / "catalog.sqlite").is_file()


def test_the_home_of_others_and_no_home(tmp_path: Path):
    refused = both("--data", "~ada/data", "--listen", "127.0.0.1:0")
    assert '--data = "~ada/data": only your own home directory, ~/, is known here' in refused.stderr
    assert "there is no home directory" in both("--data", "~/data", variables={"HOME": ""}).stderr
