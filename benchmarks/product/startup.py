"""What one waits for before anything happens: an import, a command, a first broker in memory. Each in a process of its own, warm files.

An import and a first ephemeral broker are timed inside their process, so Python's own start is not in them; a command is timed from
outside, with everything.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

import bowstring
from benchmarks import server
from benchmarks.turns import Setting, take_turns

INSIDE = {
    "import": "import time; t = time.perf_counter(); import bowstring; print(time.perf_counter() - t)",
    "ephemeral": "import time, bowstring\nt = time.perf_counter()\nwith bowstring.Broker.ephemeral():\n    print(time.perf_counter() - t)",
}
OUTSIDE = {"python": ["-c", "pass"], "help": ["-m", "bowstring.cli.main", "--help"]}
LIST = ["-m", "bowstring.cli.main", "topic", "list", "--server"]
EACH = 3
"""Times a round."""


def measure(setting: Setting) -> dict[str, Any]:
    """Seconds of every run, by what was waited for."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BOWSTRING_")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = str(setting.folder / "compiled")

    def inside(code: str) -> dict[str, float]:
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
        return {"seconds": float(done.stdout)}

    def outside(words: list[str]) -> dict[str, float]:
        begun = time.perf_counter()
        subprocess.run([sys.executable, *words], env=environment, stdout=subprocess.DEVNULL, check=True)
        return {"seconds": time.perf_counter() - begun}

    with server.running(setting.folder) as broker, bowstring.connect(broker.address) as client:
        for number in range(10):
            client.create_topic(f"topic-{number}")
        commands = OUTSIDE | {"list": [*LIST, broker.address]}
        turns = {name: lambda code=code: inside(code) for name, code in INSIDE.items()}
        turns |= {name: lambda words=words: outside(words) for name, words in commands.items()}
        for turn in turns.values():
            turn()
        return dict(take_turns(setting.rounds * EACH, turns))
