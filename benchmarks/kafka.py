"""Kafka, measured by the harness in `shared/peers`, which is beside the clone or where BOWSTRING_PEERS says.

Nothing of Kafka is ours: the harness starts one node on a fresh directory, with Kafka's defaults (no sync), and drives it with
confluent-kafka, the fastest client from Python. For each work the harness has a plain variant and one that is tuned; both are measured,
and the better one counts. The node is started once and warmed up, because a Java program is slow at first.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
VARIANTS = {"publish": ("W1", ("confluent", "confluent_batch")), "read": ("W2", ("consume", "consume_tuned"))}
"""What is compared with our publishing and our reading: the harness's workload, and its variants."""
RUN_SECONDS_MAX = 600
WARM_SHARE = 4
"""A warm-up has this part of the messages."""


def peers_folder() -> Path:
    return Path(os.environ.get("BOWSTRING_PEERS") or ROOT.parent / "shared" / "peers")


def installed_folder() -> Path:
    return Path(os.environ.get("BASE") or Path.home() / ".cache" / "bowstring-peers")


def missing() -> str:
    """Why Kafka cannot be measured here; empty if it can."""
    if not (peers_folder() / "bench_kafka.py").is_file():
        return "the peers' harness is not there (BOWSTRING_PEERS, or ../shared/peers beside the clone)"
    if not (installed_folder() / "venv" / "bin" / "python").is_file() or not list((installed_folder() / "kafka" / "libs").glob("*.jar")):
        return f"Kafka is not installed: {peers_folder() / 'setup.sh'} kafka"
    if shutil.which("java") is None:
        return "there is no Java"
    if _is_running():
        return "a Kafka of the harness is running already, and it is not ours to stop"
    return ""


def version() -> str:
    jars = sorted((installed_folder() / "kafka" / "libs").glob("kafka-clients-*.jar"))
    return jars[-1].stem.removeprefix("kafka-clients-") if jars else "unknown"


class Kafka:
    """One node, from `start` to `stop`."""

    def __init__(self) -> None:
        self._environment = os.environ | {"BASE": str(installed_folder()), "PYTHONDONTWRITEBYTECODE": "1"}

    def start(self) -> None:
        self._script("default")

    def stop(self) -> None:
        """Ends the node and removes what it has stored."""
        self._script("stop")
        shutil.rmtree(installed_folder() / "data" / "kafka", ignore_errors=True)

    def warm_up(self, counts: dict[int, int]) -> None:
        for size, count in counts.items():
            for workload, variants in VARIANTS.values():
                for variant in variants:
                    self.measure(workload, variant, size, count // WARM_SHARE)

    def measure(self, workload: str, variant: str, size: int, count: int) -> dict[str, Any]:
        """One run of the harness, its figures by our names."""
        command = [str(installed_folder() / "venv" / "bin" / "python"), "bench_kafka.py", "--workload", workload, "--variant", variant]
        command += ["--size", str(size), "--count", str(count), "--durability", "default"]
        done = subprocess.run(
            command,
            cwd=peers_folder(),
            env=self._environment,
            capture_output=True,
            timeout=RUN_SECONDS_MAX,
            start_new_session=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr.decode()[-2000:]}")
        told = json.loads(done.stdout.decode().splitlines()[-1])
        return {
            "count": told["n"],
            "seconds": told["secs"],
            "messages_per_second": told["msgs_s"],
            "megabytes_per_second": told["MB_s"],
            "client_cpu_per_million": told["client_cpu_per_M"],
            "server_cpu_per_million": told["server_cpu_per_M"],
            "other_busy_seconds": told["other_busy_s"],
            "steal_seconds": told["steal_s"],
        }

    def _script(self, argument: str) -> None:
        command = ["bash", str(peers_folder() / "start_kafka.sh"), argument]
        subprocess.run(command, env=self._environment, stdout=subprocess.DEVNULL, check=argument != "stop", start_new_session=True)


def _is_running() -> bool:
    try:
        pid = int((installed_folder() / "run" / "kafka.pid").read_text())
        os.kill(pid, 0)
    except (OSError, ValueError):
        return False
    return True
