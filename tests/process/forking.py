"""Programs that fork, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
import textwrap

from tests.process.serving import environment

LIMIT_SECONDS = 60

HEAD = """
import asyncio, gc, multiprocessing, os, signal, sys, threading, warnings
import bowstring, bowstring.aio
warnings.simplefilter("ignore")
address = sys.argv[1]

def in_child(work):
    "Forks, runs this in the child, and gives the exit code. A child that hangs is killed by its alarm."
    sys.stdout.flush()
    child = os.fork()
    if not child:
        signal.alarm(45)
        work()
        sys.exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def told(calls):
    for name, call in calls.items():
        try:
            call()
            print(name, "did not raise", flush=True)
        except bowstring.Conflict as error:
            print(name, error, flush=True)

def publishes(text, where=address):
    with bowstring.connect(where) as client, client.producer("orders") as producer:
        return producer.send(text).result(30).topic
"""


def program(text: str, address: str) -> list[str]:
    """The lines that a program prints, which knows `address` and has the functions above."""
    line = [sys.executable, "-c", HEAD + textwrap.dedent(text), address]
    ended = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
    assert (ended.returncode, ended.stderr) == (0, ""), ended
    return ended.stdout.splitlines()
