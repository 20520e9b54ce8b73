"""The table of docs/benchmarks.md: ten rows of docs/reference/benchmarks.md, losses first.

    benchmarks.py            writes the table between the marks of the page
    benchmarks.py --check    ends with 1 if the page has another one
"""

import sys
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE, RAW = DOCS / "benchmarks.md", DOCS / "reference" / "benchmarks.md"
BEGIN, END = "<!-- rows: begin -->", "<!-- rows: end -->"


@dataclass(frozen=True)
class Row:
    """A row of the table: its heading in the raw rows, its title on the page, our contender, and
    the peers that are shown, the strongest first. The ratio is relative to the first peer.
    """

    heading: str
    title: str
    ours: str
    peers: tuple[str, ...]
    tuned: str


DEFAULTS, TUNED = "defaults", "tuned"
REGION = "behind \\`region\\`"
ROWS = [
    Row(
        "blastn over a database of 2 GB, cold and hydrated, and cold in a cache of a quarter of it",
        "blastn, database of 2 GB, through a cold mount (copy first)",
        "cold, --eager",
        ("s5cmd then run", "s3fs", "rclone"),
        DEFAULTS,
    ),
    Row(
        f"From Python {REGION}: 1 GiB of safetensors into torch CPU tensors",
        "1 GiB of safetensors into torch, *region*",
        "firstbyte",
        ("runai",),
        DEFAULTS,
    ),
    Row(
        "300,000 random reads of 4 KiB, hydrated, against the same natively",
        "300,000 random reads of 4 KiB, hydrated mount (local file)",
        "firstbyte",
        ("native",),
        "-",
    ),
    Row(
        f"From Python {REGION}: 2 of 13 columns of a 422 MB Parquet file",
        "2 of 13 columns of Parquet, *region*",
        "firstbyte with a cache",
        ("pyarrow", "s3fs"),
        DEFAULTS,
    ),
    Row(
        "256 MiB behind the link \\`function\\` (0.6 Gbit/s in all, 20 ms)",
        "256 MiB down, *function*: the link is full",
        "firstbyte",
        ("s5cmd", "rclone", "aws-cli"),
        TUNED,
    ),
    Row("1 GiB from MinIO", "1 GiB down", "firstbyte", ("s5cmd", "rclone", "aws-cli"), DEFAULTS),
    Row("1 GiB to MinIO", "1 GiB up", "firstbyte", ("s5cmd", "aws-cli", "rclone"), DEFAULTS),
    Row(
        "1,000 objects of 10 to 100 KB from MinIO to ext4",
        "1,000 small files down",
        "firstbyte",
        ("s5cmd", "rclone", "aws-cli"),
        DEFAULTS,
    ),
    Row(
        "mount and read the first 4 KiB of a 300 MB file behind \\`region\\` (30 ms)",
        "mount and read the first 4 KiB, *region*",
        "firstbyte",
        ("rclone", "s3fs"),
        DEFAULTS,
    ),
    Row(
        "listing 200,000 keys behind \\`region\\`",
        "list 200,000 keys, *region*",
        "firstbyte ls -R",
        ("s5cmd ls", "aws s3 ls --recursive"),
        TUNED,
    ),
]


def figures(raw: str, heading: str) -> dict[str, tuple[float, int]]:
    """Returns the median seconds and the peak megabytes of each contender in a row."""
    section = raw.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("|")]
    return {row[0]: (float(row[1].split()[0]), int(row[5])) for row in cells[2:] if len(row) == 8}


def seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 0.095 else f"{value * 1000:.0f} ms"


def line(row: Row, found: dict[str, tuple[float, int]]) -> tuple[float, str]:
    """Returns the ratio to the strongest peer, and the line of the table."""
    ours = found[row.ours]
    ratio = ours[0] / found[row.peers[0]][0]
    peers = ", ".join(f"{name.split()[0]} {seconds(found[name][0])}" for name in row.peers)
    memory = ", ".join(str(found[name][1]) for name in row.peers)
    return ratio, f"| {row.title} | {seconds(ours[0])} | {peers} | **{ratio:.2f}x** | {ours[1]} | {memory} | {row.tuned} |"


def table(raw: str) -> str:
    """Returns the table with all rows. The row with the greatest loss is first."""
    lines = sorted((line(row, figures(raw, row.heading)) for row in ROWS), reverse=True)
    head = "| | firstbyte | others | ours / theirs | MB | theirs, MB | theirs |"
    return "\n".join([head, "| --- | --- | --- | --- | --- | --- | --- |", *(text for _, text in lines)])


def main() -> int:
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    now = f"{before}{BEGIN}\n{table(RAW.read_text())}\n{END}{after}"
    if "--check" in sys.argv:
        return int(now != page)
    PAGE.write_text(now)
    return 0


if __name__ == "__main__":
    sys.exit(main())
