"""A peer's server. The peers' harness starts and ends it; BOWSTRING_PEERS says where the harness
is, `../shared/peers` by default.

Nothing of the peers is ours: `setup.sh` of the harness installs a server and its Python clients
(BASE, by default a folder in the user's cache), and its `start_*.sh` runs one node on a fresh
directory, with its defaults or so that it syncs what it acknowledges. A peer that is not there is
not measured, and the table says why. One that runs already is not ours to stop, and is left alone.

Work is measured by the harness's own scripts (`harness`), or by clients of ours where it has none
for it (`work`): those run in this Python, which also has pyarrow, with the packages of the peers'
environment in its path.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
RUN_SECONDS_MAX = 600
SERVERS = {
    "kafka": "kafka/libs",
    "nats": "bin/nats-server",
    "redis": "redis-server",
    "rabbit": "/usr/lib/rabbitmq/bin/rabbitmq-server",
}
"""Where a server is: below what `setup.sh` has made, in the path, or at one place only."""
TITLES = {"kafka": "Kafka", "nats": "NATS JetStream", "redis": "Redis Streams", "rabbit": "RabbitMQ"}


def harness_folder() -> Path:
    return Path(os.environ.get("BOWSTRING_PEERS") or ROOT.parent / "shared" / "peers")


def installed_folder() -> Path:
    return Path(os.environ.get("BASE") or Path.home() / ".cache" / "bowstring-peers")


def packages_folder() -> Path:
    """Where the peers' Python clients are, for a Python of this version."""
    return installed_folder() / "venv" / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def missing(name: str) -> str:
    """Why a peer cannot be measured here; empty if it can."""
    if not (harness_folder() / f"start_{name}.sh").is_file():
        return "the peers' harness is not there (BOWSTRING_PEERS, or ../shared/peers beside the clone)"
    if not packages_folder().is_dir() or not _has_server(name):
        return f"it is not installed: bash {harness_folder() / 'setup.sh'} {name}"
    if name == "kafka" and shutil.which("java") is None:
        return "there is no Java"
    if _pid(name):
        return "one of the harness is running already, and it is not ours to stop"
    return ""


def _has_server(name: str) -> bool:
    place = SERVERS[name]
    if name == "kafka":
        return bool(list((installed_folder() / place).glob("*.jar")))
    return (installed_folder() / place).is_file() or shutil.which(place) is not None


def _pid(name: str) -> int:
    """The process of a node that the harness has started, 0 if there is none."""
    try:
        pid = int((installed_folder() / "run" / f"{name}.pid").read_text())
        os.kill(pid, 0)
    except (OSError, ValueError):
        return 0
    return pid


class Node:
    """One node of a peer, from `start` to `stop`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.durability = ""
        """`default`, or `fsync`: it syncs what it acknowledges."""
        self._environment = os.environ | {"BASE": str(installed_folder()), "PYTHONDONTWRITEBYTECODE": "1"}

    def start(self, durability: str) -> None:
        self.durability = durability
        self._script(durability)

    def stop(self) -> None:
        """Ends the node and removes what it has stored."""
        self._script("stop")
        shutil.rmtree(installed_folder() / "data" / self.name, ignore_errors=True)

    def harness(self, workload: str, variant: str, size: int, **more: object) -> dict[str, Any]:
        """What the harness's own script for this peer tells of one run, by our names."""
        command = [str(installed_folder() / "venv" / "bin" / "python"), f"bench_{self.name}.py"]
        told = {"workload": workload, "variant": variant, "size": size, "durability": self.durability, **more}
        found = self._run(command + [f"--{key}={value}" for key, value in told.items()], harness_folder(), self._environment)
        names = {"n": "count", "secs": "seconds", "msgs_s": "messages_per_second", "MB_s": "megabytes_per_second"}
        names |= {f"{side}_cpu_per_M": f"{side}_cpu_per_million" for side in ("client", "server")}
        names |= {"other_busy_s": "other_busy_seconds", "steal_s": "steal_seconds", "p50_ms": "median_ms"}
        return {names.get(key, key): value for key, value in found.items()}

    def work(self, module: str, name: str, **told: object) -> dict[str, Any]:
        """What one of our own clients for this peer tells of one run."""
        command = [sys.executable, "-m", f"benchmarks.peers.{module}", name, f"--broker={_pid(self.name)}"]
        path = os.pathsep.join((str(ROOT), str(packages_folder())))
        return self._run(command + [f"--{key}={value}" for key, value in told.items()], ROOT, self._environment | {"PYTHONPATH": path})

    def _run(self, command: Sequence[str], folder: Path, environment: dict[str, str]) -> dict[str, Any]:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=RUN_SECONDS_MAX, start_new_session=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr.decode()[-2000:]}")
        return json.loads(done.stdout.decode().splitlines()[-1])

    def _script(self, argument: str) -> None:
        command = ["bash", str(harness_folder() / f"start_{self.name}.sh"), argument]
        subprocess.run(command, env=self._environment, stdout=subprocess.DEVNULL, check=argument != "stop", start_new_session=True)


@contextmanager
def running(name: str, durability: str) -> Generator[Node]:
    """A fresh node, which is gone afterwards."""
    node = Node(name)
    try:
        node.start(durability)
        yield node
    finally:
        node.stop()
