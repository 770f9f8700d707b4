"""Adds to the site of docs/: the list of decisions, made from their titles, and a rule: whoever
reads a page asks no other host for anything. Called by mkdocs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

DECISIONS: Final = "decisions/README.md"
_FOREIGN: Final = re.compile(r'<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)="?(https?:)?//[^>]*>')


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Adds the list to the page about decisions; every other page stays as it is."""
    if page.file.src_uri != DECISIONS:
        return markdown
    folder = Path(config["docs_dir"]) / "decisions"
    titles = {path.name: path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ") for path in sorted(folder.glob("0*.md"))}
    return markdown + "\n## All of them\n" + "".join(f"- [{title}]({name})\n" for name, title in titles.items())


def on_post_page(output: str, *, page: Any, config: Any) -> str:
    """Refuses a page that loads something from elsewhere."""
    foreign = _FOREIGN.search(output)
    if foreign is not None:
        raise SystemExit(f"{page.file.src_uri} loads something from another host: {foreign[0]}")
    return output
