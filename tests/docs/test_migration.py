"""Each option without a counterpart in docs/reference/migration.md has a reason: beside it, or as a
row of compare.md. The program gives advice for each option that it does not have.
"""

import re
import subprocess

import pytest
from serving import PROGRAM, ROOT

REFERENCE = ROOT / "docs" / "reference"
LINES = (REFERENCE / "migration.md").read_text().splitlines()
# The cells of each row. A bar within a cell is escaped.
ROWS = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in LINES if line.startswith("| ")]


def lacks(cell, after=""):
    """Returns true if the cell says "none", except where that is the value of an option."""
    return re.search(rf"\bnone\b{after}", re.sub(r"`[^`]*`", "`", cell))


def has_reason(cell):
    """Returns true if each "none" is followed by a reason."""
    return not lacks(cell, after=r"(?!: \S)")


MISSING = [row for row in ROWS if lacks(row[-1])]


def test_a_bare_none_is_found():
    assert has_reason("`-a`; none: it is always so") and has_reason("`--compare none`")
    for cell in ("none", "none; `-a`", "`-a`; none", "`-a`, none, `-b`", "none:", "none for copies"):
        assert not has_reason(cell)


@pytest.mark.parametrize("row", MISSING, ids=lambda row: row[0])
def test_what_has_no_counterpart_has_a_reason(row):
    assert has_reason(row[-1]), row


def test_reasons_elsewhere_are_rows_of_the_comparison():
    """For a row that only links to compare.md, every word of the row has its reason there."""
    argued = (REFERENCE / "compare.md").read_text().partition("## Where firstbyte has N")[2].lower()
    linked = [row for row in MISSING if row[-1].endswith("[why](compare.md#where-firstbyte-has-n)")]
    assert linked
    for row in linked:
        names = [re.sub("^serve |-object-content$|^bucket-", "", name.strip("` ")) for name in row[0].split(",")]
        assert not [name for name in names if name not in argued]


# The verbs that are tried with the options of each section.
TRIED = {"aws": ["cp"], "s5cmd": ["cp", "ls"], "rclone": ["sync", "mount"], "rsync": ["cp"]}
ADVICE = re.compile("; (use|leave it out|not possible|set it|docs/reference/migration.md)")


def foreign_options():
    """Yields each section with each option in the first cells of its tables."""
    section = ""
    for line in LINES:
        if line.startswith("## "):
            section = line[3:]
        elif line.startswith("| ") and section in TRIED:
            for code in re.findall("`([^`]+)`", re.split(r"(?<!\\)\|", line)[1]):
                words = code.split()
                if words[0].startswith("-"):
                    yield section, words[0].partition("=")[0]


@pytest.mark.parametrize(("section", "option"), sorted(set(foreign_options())))
def test_an_option_of_another_program_gets_advice(section, option, tmp_path):
    """The line names an option to use, or says why there is none. A guess by spelling is no
    advice.
    """
    lines = []
    for verb in TRIED[section]:
        command = [PROGRAM, verb, option, "a", "b"]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        lines.append(ran.stderr)
    assert any("has no such option" not in line or ADVICE.search(line) for line in lines), lines
