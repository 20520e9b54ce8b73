"""Lists the numeric tuning constants of `pacing`, `fetch`, `transfer`, `hydrate` and `store`.

A tuning constant is a number that changes how fast, how much or how long, and not what is right: a
threshold, a growth factor, a time-out, a poll interval, a size of a buffer or a request, a count.
Each is listed once: a `const` whose value contains a number, each number of a `const` that holds
several, and each number in an expression, except 0 and 1. A `const` derived from others without a
number of its own adds nothing. Code that only tests compile is skipped, and so are facts: limits
and status codes of protocols, layouts of files, units and plain arithmetic. `FACTS` names them.

    python3 scripts/constants.py [--facts] [ROOT]

lists them with their number; `--facts` lists the skipped facts instead.
"""

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rust import Token, lex

CRATES = ("pacing", "fetch", "transfer", "hydrate", "store")
NUMBER = re.compile(r"(0[xob][0-9a-f_]+|\d[\d_]*(e\d+)?)(_?([iu](8|16|32|64|128|size)|f32|f64))?$", re.IGNORECASE)
OPEN, CLOSE = "([{", ")]}"

# Facts. Each has a pattern of the file's path, and a pattern of the line or of the constant's name.
FACTS = [
    ("", r"\b0o\d+"),  # Modes of files.
    ("", r"status|\b(301|401|404|405|412|416|429|503|200\.\.)\b.*=>|\b(443|80)\b"),  # HTTP.
    ("", r"0x7f|0xC0|0xcbf2|0x0100_0000_01b3|hash >> |\([23], (b\"|_\))|0_u32"),  # Bytes, XML.
    ("", r"1e6\)|1_000_000_000|[%/] 1_?000(\.0)?\b|>> 20|\* 100\)|as_millis"),  # Units.
    # Widths.
    ("", r"from_str_radix|bits [<-]|bits\)|; \d\]|=63|at \+ 3|_multiple_of\(4096\)|\* 512\)"),
    ("", r"sorted\.len\(\) / 2|blocks\.end - blocks\.start\) / 2|2 \* below"),  # Middles.
    ("", r"^(NAME_MAX|PATH_MAX|LONGEST_NAME|MAX_PATH_BYTES|PRESERVED_BITS|OWNER_BITS)$"),  # Linux.
    # S3.
    ("", r"^(PAGE|MOST_KEYS|DELETE_BATCH|SINGLE_COPY|MAX_PARTS|MIN_PART_SIZE)$|LONGEST_NAME / 2"),
    ("transfer/(relay|stream)", r"^(RELAY|FIRST)_PART_SIZE$"),  # S3's shortest part.
    # Limits of a server's answer. An answer that exceeds them counts as malformed.
    ("store", r"^MAX_((HEAD|LINE|XML|PAGE|DRAINED|WAITING)_BYTES|HEADERS|INTERIM|TRAILERS|REDIRECTS|EMPTY_PAGES)$"),
    ("store/s3/list/plan", r"^WHOLE$"),
    ("processors", r"take\(8\)|get\([34]\)"),  # Fields of /proc/stat.
    # Layouts of files, and of locks within them.
    ("transfer/journal", ""),
    ("hydrate/cache/(block_map|header|entry|identity|directory|boot)", r"^(?!ATTEMPTS)"),
    (r"hydrate/cache/map\.rs", r"64|page\(\)|IN_INODE"),
    ("hydrate/cache/lock", r"^(OPEN|ENTRANCE|WHOLE|HOLD|EVERYTHING|LEASES|CHANGES|PINS|CLAIMS|BLOCKS|LENT)$"),
    ("hydrate/cache/usage", r"^(LEN|UNKNOWN|RECOUNT|COUNT)$|UNKNOWN / 2"),
    ("hydrate/cache/(evict|room)", r"BLOCKS_PER_MAP_PAGE"),
    ("hydrate/cache/(clock|moment)", r"SECONDS"),
]


@dataclass(frozen=True)
class Constant:
    """A number in the code, or a `const` that contains one, and where it is."""

    place: str
    line: int
    name: str
    text: str

    def is_fact(self) -> bool:
        return any(re.search(path, self.place) and re.search(text, self.name or self.text) for path, text in FACTS)


def outside_tests(tokens: list[Token]) -> list[Token]:
    """Removes comments and attributes, and items that are only compiled for tests."""
    kept, at = [], 0
    while at < len(tokens):
        if tokens[at].text != "#" or at + 1 == len(tokens) or tokens[at + 1].text not in ("[", "!"):
            kept.append(tokens[at])
            at += 1
            continue
        start = at
        at = end_of(tokens, start + 1 + (tokens[start + 1].text == "!"))
        if "".join(token.text for token in tokens[start:at]) in ("#[cfg(test)]", "#[test]"):
            while tokens[at].text not in (";", "{"):
                at = end_of(tokens, at)
            at = end_of(tokens, at)
    return kept


def end_of(tokens: list[Token], at: int) -> int:
    """Returns the end of the token at `at`. If the token opens a group, returns the end of the
    group.
    """
    depth = 0
    while True:
        depth += (tokens[at].text in OPEN) - (tokens[at].text in CLOSE)
        at += 1
        if depth <= 0:
            return at


def constants_of(place: str, source: str) -> Iterator[Constant]:
    """Yields every number in a file that may be a tuning constant."""
    lines = source.split("\n")
    tokens = outside_tests([token for token in lex(source) if token.kind != "comment"])
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if token.text == "const" and at + 2 < len(tokens) and tokens[at + 2].text == ":":
            end = at
            while tokens[end].text != ";":
                end = end_of(tokens, end)
            texts = [token.text for token in tokens[at:end]]
            value = texts[texts.index("=") + 1 :] if "=" in texts else []
            numbers = [text for text in value if NUMBER.match(text)]
            for _ in numbers if "{" in value else numbers[:1]:
                yield Constant(place, token.line, texts[1], " ".join(value))
            at = end
            continue
        if token.kind == "word" and NUMBER.match(token.text) and is_counted(tokens, at):
            yield Constant(place, token.line, "", lines[token.line - 1].strip())
        at += 1


def is_counted(tokens: list[Token], at: int) -> bool:
    """Returns true unless the number is 0 or 1, a field of a tuple, or the shift of a size."""
    before = tokens[at - 1].text
    is_fraction = before == "." and at > 1 and tokens[at - 2].text.isdigit()
    is_shift = before == "<" and tokens[at - 2].text == "<" and tokens[at - 3].text != "1"
    follows = tokens[at + 1].text == "." and tokens[at + 2].text.isdigit()
    return not (before == "." and not is_fraction or is_shift or tokens[at].text in ("0", "1") or follows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--facts", action="store_true", help="list what was skipped")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parent.parent)
    options = parser.parse_args()
    total = 0
    for crate in CRATES:
        folder = options.root / "crates" / crate / "src"
        count = 0
        for path in sorted(folder.rglob("*.rs")):
            if "tests" in path.relative_to(folder).with_suffix("").parts:
                continue
            place = f"{crate}/{path.relative_to(folder)}"
            for constant in constants_of(place, path.read_text(encoding="utf-8")):
                if constant.is_fact() == options.facts:
                    print(f"{place}:{constant.line}: {constant.name or '-'}: {constant.text}")
                    count += 1
        print(f"{crate}: {count}")
        total += count
    print(f"total: {total}")


if __name__ == "__main__":
    main()
