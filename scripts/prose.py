"""Checks the width of comments, and finds phrases that readers stumble over: in comments, doc
strings, help and error texts.

Phrases are searched in comments, string literals and function names of Rust and Python, and in the
whole text of other files. A phrase may span lines of one comment. Each rule names the replacement.
"""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from rust import lex

# Maximum width of a line with a comment, in columns.
WIDTH = 100

# Phrases to avoid, and their replacements. A space also matches a line break.
PHRASES = [
    (re.compile(pattern.replace(" ", r"\s"), re.IGNORECASE), advice)
    for pattern, advice in [
        (r"\bnobody\b", "no caller, no thread, no process; `None`"),
        (r"\bwhoever\b", "the caller that ..., any process that ..."),
        (r"\b(?:some|any|every)body\b", "another process, any thread, every caller"),
        (r"\b(?:he|him|his|she|her)\b", "the role: the user, the caller, the author"),
        (r"\btold apart\b", "distinguished"),
        (r"\b(?:unless|until|as|if|when|where) told\b", "by default; if the option is given"),
        (r"\btold\b", "reported, given, notified"),
        (r"\btells\b", "reports, returns, distinguishes, says"),
        (r"\bin vain\b", "wasted, discarded, without effect"),
        (r"(?<!there )\b(?:is|are) (?-i:none)\b", "is missing, does not exist, is not a ..."),
        (r"\bnothing (?:if|where|when)\b", "`None` if ..."),
        (r"\bnothing need\b", "a sentence with a subject that acts"),
        (r"\b(?:kernel|system|server|store|client) likes\b", "chooses, prefers"),
        (r"\bcom(?:es?|ing) to be\b", "appears, is created"),
        (r"\bas far as (?:the source|it) allows\b", "when the store has a checksum; the receipt says which"),
        (r"\bwhat would be done\b", "show what would be ..., without ..."),
    ]
]


def prose(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """Yields the parts of a file that people read, each with the number of its first line."""
    if path.suffix == ".rs":
        yield from rust_prose(text)
    elif path.suffix == ".py":
        yield from python_prose(text)
    else:
        yield 1, text


def rust_prose(text: str) -> Iterator[tuple[int, str]]:
    """Yields comments (adjacent lines as one), strings, and names of functions as words."""
    start, comment, previous = 0, "", ""
    for token in lex(text):
        if token.kind == "comment":
            if comment and token.line == start + comment.count("\n") + 1:
                comment += "\n" + token.text.lstrip("/!").lstrip()
                continue
            if comment:
                yield start, comment
            start, comment = token.line, token.text.lstrip("/!")
            continue
        if token.kind == "string":
            # A `\` at the end of a line continues the string on the next line.
            yield token.line, re.sub(r"\\?\n *", "\n", token.text.replace("\\n", " "))
        elif previous == "fn":
            yield token.line, token.text.replace("_", " ")
        previous = token.text
    if comment:
        yield start, comment


def python_prose(text: str) -> Iterator[tuple[int, str]]:
    """Yields comments, strings, and names of functions as words."""
    previous = ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield token.start[0], re.sub(r"\n +", "\n", token.string)
        elif previous == "def":
            yield token.start[0], token.string.replace("_", " ")
        previous = token.string


def phrases(path: Path, text: str) -> list[tuple[int, str]]:
    """Returns the lines with a phrase to avoid, and its replacement."""
    found = []
    for start, part in prose(path, text):
        ends: set[int] = set()
        for pattern, advice in PHRASES:
            for match in pattern.finditer(part):
                # The rules are sorted by precision, so the first match is the most precise.
                if match.end() not in ends:
                    ends.add(match.end())
                    number = start + part.count("\n", 0, match.start())
                    found.append((number, f"`{' '.join(match[0].split())}`: write {advice}"))
    return sorted(found)


def wide_comments(path: Path, text: str) -> list[tuple[int, str]]:
    """Returns the lines of Rust and Python that hold a comment or a doc string and are too wide."""
    lines = text.splitlines()
    if max(map(len, lines), default=0) <= WIDTH:
        return []
    if path.suffix == ".rs":
        spans = ((t.line, t.line + t.text.count("\n")) for t in lex(text) if t.kind == "comment")
    elif path.suffix == ".py":
        spans = python_comments(text)
    else:
        return []
    numbers = {number for first, last in spans for number in range(first, last + 1)}
    return [
        (number, f"a comment of {len(lines[number - 1])} columns, {WIDTH} allowed")
        for number in sorted(numbers)
        # A link cannot be broken.
        if len(lines[number - 1]) > WIDTH and "://" not in lines[number - 1].split()[-1]
    ]


def python_comments(text: str) -> Iterator[tuple[int, int]]:
    """Yields the first and last lines of comments and doc strings."""
    previous = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_statement = previous in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
        if token.type == tokenize.COMMENT or token.type == tokenize.STRING and is_statement:
            yield token.start[0], token.end[0]
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            previous = token.type
