"""The pictures of README: a terminal after `firstbyte demo`, and a chart of published rows.

    pictures.py DEMO.txt    writes docs/demo.svg and docs/compared.svg

The chart's figures are those of docs/reference/benchmarks.md. Both follow the reader's light or
dark scheme.
"""

import re
import sys
from html import escape
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"

STYLE = """<style>
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #1f2328; white-space: pre }
.back { fill: #f6f8fa; stroke: #d1d9e0 } .faint { fill: #59636e } .ours { fill: #0969da } .peer { fill: #9da7b1 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .back { fill: #151b23; stroke: #3d444d } .faint { fill: #9198a1 }
.ours { fill: #4493f8 } .peer { fill: #656c76 } }
</style>"""

# Width of a letter and height of a line in a monospaced font of 13 pixels, and the margin, all in
# pixels.
LETTER, LINE, MARGIN = 7.83, 18, 16

# Rows of the chart. For each: the heading in docs/reference/benchmarks.md, the title in the chart,
# the column, and the format of its figures.
ROWS = [
    ("1 GiB from MinIO", "1 GiB down", 1, "{:.2f} s"),
    ("1 GiB to MinIO", "1 GiB up", 1, "{:.2f} s"),
    ("1,000 objects of 10 to 100 KB from MinIO to ext4", "1,000 small files down", 1, "{:.2f} s"),
    ("1,000 files of 10 to 100 KB to MinIO", "1,000 small files up", 1, "{:.2f} s"),
    ("1 GiB from MinIO", "peak memory, 1 GiB down", 5, "{:.0f} MB"),
]
CONTENDERS = ["firstbyte", "s5cmd", "aws-cli"]


def svg(width: float, height: float, title: str, body: list[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(title)}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}">'
    )
    back = f'<rect class="back" x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1:.0f}" rx="8"/>'
    return "\n".join([head, STYLE, back, *body, "</svg>\n"])


def terminal(command: str, output: str) -> str:
    """Returns a picture of a terminal after a command."""
    lines = [f"$ {command}", *output.rstrip("\n").split("\n")]
    width = max(map(len, lines)) * LETTER + 2 * MARGIN
    body = [
        f'<text x="{MARGIN}" y="{MARGIN + 12 + number * LINE}"{" class=" + chr(34) + "faint" + chr(34) if number == 0 else ""}>'
        f"{escape(line)}</text>"
        for number, line in enumerate(lines)
    ]
    return svg(width, len(lines) * LINE + 2 * MARGIN, f"Output of {command}", body)


def figures(page: str, heading: str, column: int) -> dict[str, float]:
    """Returns, by contender, one column of the table below a heading of
    docs/reference/benchmarks.md.
    """
    section = page.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    number = re.compile(r"[\d.]+")
    return {row[0]: float(number.match(row[column])[0]) for row in rows if row[0] in CONTENDERS}


def chart(page: str) -> str:
    """Returns the chart. The bars of a row are relative to the longest bar in that row."""
    body, y = [], MARGIN + 12
    names, bars, width = MARGIN + 16, MARGIN + 110, 620
    for heading, title, column, form in ROWS:
        values = figures(page, heading, column)
        body.append(f'<text x="{MARGIN}" y="{y}">{escape(title)}</text>')
        for name in CONTENDERS:
            y += LINE
            length = (width - bars - 90) * values[name] / max(values.values())
            kind = "ours" if name == "firstbyte" else "peer"
            body.append(f'<text class="faint" x="{names}" y="{y}">{name}</text>')
            body.append(f'<rect class="{kind}" x="{bars}" y="{y - 11}" width="{max(length, 1):.0f}" height="12" rx="2"/>')
            body.append(f'<text x="{bars + length + 8:.0f}" y="{y}">{form.format(values[name])}</text>')
        y += LINE * 1.5
    return svg(width, y - 4, "firstbyte, s5cmd and aws-cli against MinIO on loopback; shorter is better", body)


def main() -> None:
    (DOCS / "demo.svg").write_text(terminal("firstbyte demo", Path(sys.argv[1]).read_text()))
    (DOCS / "compared.svg").write_text(chart((DOCS / "reference" / "benchmarks.md").read_text()))


if __name__ == "__main__":
    main()
