"""Generates the wire code from the schema: `make proto`. With `--check` it only says whether the
generated code is up to date.

protoc names Python modules after the schema's own folders, `bowstring/v1`, which would put them
into our package at a place that is not theirs. Ours live in `bowstring.wire.generated`, so the
files are moved there, and the module names in them are rewritten. The names inside the descriptors
stay those of the schema, the same for the kits of every language.

protoc also writes a check into the code: the installed protobuf must be at least as new as protoc.
That would force the newest protobuf on everyone who installs the kit. The code below the check is a
serialised descriptor and three calls that protobuf 5 to 7 all have, so the check is removed;
`tests/process/test_lowest_versions.py` runs the kit and the broker with the oldest protobuf that
pyproject.toml allows (decision 0027).
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "proto"
GENERATED = ROOT / "src" / "bowstring" / "wire" / "generated"
INIT = '"""Made from proto/ by `make proto`; nobody edits what is here."""\n'

RUNTIME_CHECK = re.compile(
    r"^from google\.protobuf import runtime_version as _runtime_version\n"
    r"|^_runtime_version\.ValidateProtobufRuntimeVersion\(\n(?: .*\n)*\)\n",
    re.MULTILINE,
)


def generate() -> dict[str, str]:
    """The files that the schema gives now, by name."""
    protos = [str(path.relative_to(SCHEMA)) for path in sorted(SCHEMA.rglob("*.proto"))]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{SCHEMA}", f"--python_out={folder}", f"--pyi_out={folder}", *protos]
        subprocess.run(command, check=True)
        files = {path.name: path.read_text(encoding="utf-8") for path in sorted(Path(folder).rglob("*_pb2.py*"))}
    return {"__init__.py": INIT} | {name: RUNTIME_CHECK.sub("", _rename(text)) for name, text in files.items()}


def _rename(text: str) -> str:
    """The module names, in imports and where classes say which module they are of."""
    return text.replace("from bowstring.v1 import", "from bowstring.wire.generated import").replace(
        "'bowstring.v1.", "'bowstring.wire.generated."
    )


def main() -> int:
    """Writes the files, or with --check compares them; 1 if they differ."""
    fresh = generate()
    present = {path.name: path.read_text(encoding="utf-8") for path in GENERATED.glob("*.py*")} if GENERATED.is_dir() else {}
    if "--check" in sys.argv[1:]:
        stale = sorted(name for name in fresh.keys() | present.keys() if fresh.get(name) != present.get(name))
        if stale:
            print(f"{GENERATED.relative_to(ROOT)}: {', '.join(stale)} differ from proto/; run 'make proto'", file=sys.stderr)
        return 1 if stale else 0
    GENERATED.mkdir(parents=True, exist_ok=True)
    for name in present.keys() - fresh.keys():
        (GENERATED / name).unlink()
    for name, text in fresh.items():
        (GENERATED / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
