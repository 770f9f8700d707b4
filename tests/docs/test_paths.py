"""The documents name files that exist: README, CONTRIBUTING and ARCHITECTURE are true against the tree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "bowstring"
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md", "SECURITY.md", "tests/README.md"]
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")
PATH = re.compile(r"`((?:[\w.-]+/)+[\w.*-]+)`")
MODULE = re.compile(r"`([a-z_]+(?:\.[a-z_]+)+)`")
NOT_MODULES = re.compile(r"^(bowstring|broker|client|producer|reader|message|batch|topic|batches|log|answers)\.[a-z_]+$")
"""Calls and settings that look like modules: `broker.clock`, `topic.retention`."""
MADE = {".venv", "build"}


def written(document: str) -> str:
    """The text without its examples."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_to_files_that_exist(document: str) -> None:
    missing: list[str] = []
    for path, anchor in LINK.findall(written(document)):
        if path.startswith(("http://", "https://")):
            continue
        found = (ROOT / document).parent / path if path else ROOT / document
        if not found.exists():
            missing.append(path)
        elif anchor and found.suffix == ".md" and anchor[1:] not in anchors(found):
            missing.append(path + anchor)
    assert not missing


@pytest.mark.parametrize("document", DOCUMENTS)
def test_paths_in_the_text_exist(document: str) -> None:
    named = {path for path in PATH.findall(written(document)) if path.split("/")[0] not in MADE}
    missing = {path for path in named if not any(any(folder.glob(path)) for folder in (ROOT, SOURCE, ROOT / document / ".."))}
    assert not missing


def test_modules_that_the_architecture_names_exist() -> None:
    named = {name for name in MODULE.findall(written("ARCHITECTURE.md")) if not NOT_MODULES.match(name)}
    assert len(named) >= 10
    missing = {name for name in named if not is_module(name.replace(".", "/"))}
    assert not missing


def test_the_tour_names_modules_that_exist() -> None:
    tour = written("README.md").partition("## Read the source")[2]
    for item in re.split(r"^\d+\. ", tour, flags=re.MULTILINE)[1:]:
        folders = [ROOT / path for path, _ in LINK.findall(item)]
        for name in re.findall(r"`([a-z_]+)`", item):
            assert any((folder / f"{name}.py").exists() or (folder / name).is_dir() for folder in folders), f"{name} in {item}"


def is_module(path: str) -> bool:
    """Whether this is a module, a package, or a name in a module."""
    parent, _, name = path.rpartition("/")
    if any((SOURCE / each).exists() for each in (path, f"{path}.py")):
        return True
    above = SOURCE / f"{parent}.py"
    return above.exists() and re.search(rf"\b{name}\b", above.read_text(encoding="utf-8")) is not None


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
