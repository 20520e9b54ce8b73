"""Finds the code blocks of README.md and docs/*.md.

The first word behind the fence is the language. A shell block runs in `make test`, unless a word
follows: ```sh long``` runs in `make soak`, and ```sh not-run: REASON``` nowhere.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from serving import ROOT

FENCE = re.compile(r"^```(?P<info>.*)\n(?P<text>(?:.*\n)*?)```$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A code block, and where it is."""

    page: Path
    line: int
    info: str
    text: str

    @property
    def language(self) -> str:
        return self.info.partition(" ")[0]

    @property
    def reason(self) -> str | None:
        """Returns the reason why a shell block does not run; `None` if it runs."""
        found = re.fullmatch(r"sh not-run: (.+)", self.info)
        return found[1] if found else None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """Returns README, every page of docs, and every reference page."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/reference").glob("*.md"))]


def blocks() -> list[Block]:
    """Returns all blocks of all pages."""
    found = []
    for page in pages():
        text = page.read_text()
        for match in FENCE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(page, line, match["info"], match["text"]))
    return found
