"""Splits Rust source into its tokens, for the checks of imports (imports.py) and of prose
(prose.py)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

LEXER = re.compile(
    r"""(?P<space>\s+)
      | (?P<comment>//[^\n]*|/\*)
      | (?P<raw>\b(?:b|c)?r(?P<hashes>\#*)".*?"(?P=hashes))
      | (?P<string>(?:\b[bc])?"(?:\\.|[^"\\])*")
      | (?P<char>(?:\bb)?'(?:\\(?:u\{[^}]*\}|x..|.)|[^\\'])')
      | (?P<lifetime>'\w+)
      | (?P<word>(?:r\#)?\w+)
      | (?P<mark>::|=>|->|.)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    """A token: its kind is the name of a group in `LEXER`, its line the one it starts on."""

    kind: str
    text: str
    line: int


def lex(source: str) -> Iterator[Token]:
    """The tokens of `source` in order, without white space."""
    at, line = 0, 1
    while match := LEXER.match(source, at):
        end = end_of_block_comment(source, at) if match[0] == "/*" else match.end()
        text = source[at:end]
        if match.lastgroup != "space":
            yield Token("string" if match["raw"] else match.lastgroup, text, line)
        line += text.count("\n")
        at = end


def end_of_block_comment(source: str, start: int) -> int:
    """The end of the block comment that starts at `start`. Block comments nest."""
    depth = 0
    for mark in re.compile(r"/\*|\*/").finditer(source, start):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(source)
