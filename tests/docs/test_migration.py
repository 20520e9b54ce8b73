"""Each option without a counterpart in docs/reference/migration.md has a reason: beside it, or as a
row of compare.md.
"""

import re

import pytest
from serving import ROOT

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
