"""The features of docs/reference/compare.md. `python3 tests/docs/features.py` prints its table."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("rclone", "s5cmd", "aws", "firstbyte")
# Lines that run before each script. With this variable set, rclone 1.60 refuses certificates.
PRELUDE = """
unset AWS_CA_BUNDLE
there() { firstbyte stat "s3://bucket/$1" > /dev/null; }
gone() { if there "$1" 2> /dev/null; then return 1; fi; }
headers() { curl -s -o /dev/null -D - "$(firstbyte presign "s3://bucket/$1")"; }
listening() { until (: > "/dev/tcp/127.0.0.1/$1") 2> /dev/null; do sleep 0.02; done; }
tr '\\n' '\\0' < names > names0
BASIC=$(printf alice:minioadmin | base64)
SHA256=$(sha256sum < original | cut -d' ' -f1)
touch big.bam
"""


@dataclass(frozen=True)
class Cell:
    """The script of one program for one feature."""

    feature: str
    program: str
    script: str
    note: str | None

    @property
    def has(self) -> bool:
        """Returns true if the program has the feature."""
        return not self.script.startswith("! ")

    def __str__(self) -> str:
        return f"{self.program}: {self.feature}"


@dataclass(frozen=True)
class Row:
    """A feature, with one cell for each program."""

    group: str
    feature: str
    cells: tuple[Cell, ...]


def rows() -> list[Row]:
    """Returns all features, in order. A row that names no group belongs to the group of the row
    above.
    """
    group, found = "", []
    for row in tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["row"]:
        group = row.get("group", group)
        then = f"\n{row['then']}" if "then" in row else ""
        cells = []
        for program in PROGRAMS:
            script = row[program]
            cells.append(Cell(row["feature"], program, script if script.startswith("! ") else script + then, row.get(f"{program}_note")))
        found.append(Row(group, row["feature"], tuple(cells)))
    return found


def table() -> list[str]:
    """Returns the lines of the tables, with a heading for each group, and the numbered notes."""
    lines, notes, group = [], [], ""
    for row in rows():
        if row.group != group:
            group = row.group
            lines += ["", f"### {group}", "", f"| | {' | '.join(PROGRAMS)} |", "| --- " * 5 + "|"]
        shown = []
        for cell in row.cells:
            mark = "Y" if cell.has else "N"
            if cell.note:
                notes += [cell.note] if cell.note not in notes else []
                mark += f" ({notes.index(cell.note) + 1})"
            shown.append(mark)
        lines.append(f"| {row.feature} | {' | '.join(shown)} |")
    return [*lines[1:], "", *(f"{number}. {note}" for number, note in enumerate(notes, 1))]


if __name__ == "__main__":
    print("\n".join(table()))
