"""Splits Rust source into its tokens, for the checks of imports (imports.py) and of prose
(prose.py)."""

import re
from functools import lru_cache
from typing import NamedTuple

LEXER = re.compile(
    r"""(?P<space>\s*)
      (?:(?P<comment>//[^\n]*|/\*)
      | (?P<raw>\b(?:b|c)?r(?P<hashes>\#*)".*?"(?P=hashes))
      | (?P<string>(?:\b[bc])?"(?:\\.|[^"\\])*")
      | (?P<char>(?:\bb)?'(?:\\(?:u\{[^}]*\}|x..|.)|[^\\'])')
      | (?P<lifetime>'\w+)
      | (?P<word>(?:r\#)?\w+)
      | (?P<mark>::|=>|->|\S))""",
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """A token: its kind, which is the name of a group in `LEXER`, its text, and its first line."""

    kind: str
    text: str
    line: int


# Cached, because several checks read the same file one after another.
@lru_cache(maxsize=8)
def lex(source: str) -> tuple[Token, ...]:
    """Returns the tokens of `source` in order, without white space."""
    tokens, at, line = [], 0, 1
    while match := LEXER.match(source, at):
        line += match["space"].count("\n")
        start, kind, end = match.end("space"), match.lastgroup, match.end()
        if kind == "comment" and source.startswith("/*", start):
            end = end_of_block_comment(source, start)
        text = source[start:end]
        tokens.append(Token("string" if kind == "raw" else kind, text, line))
        if kind not in ("word", "mark"):
            line += text.count("\n")
        at = end
    return tuple(tokens)


def end_of_block_comment(source: str, start: int) -> int:
    """Returns the end of the block comment that starts at `start`. Block comments nest."""
    depth = 0
    for mark in re.compile(r"/\*|\*/").finditer(source, start):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(source)
