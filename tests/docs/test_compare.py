"""Firstbyte's column of docs/reference/compare.md is true here, all of it with `--long`."""

import re

from features import PRELUDE, PROGRAMS, rows, table
from serving import ROOT

PAGE = (ROOT / "docs" / "reference" / "compare.md").read_text()


def pytest_generate_tests(metafunc):
    if "cell" in metafunc.fixturenames:
        programs = PROGRAMS if metafunc.config.getoption("--long") else ("firstbyte",)
        cells = [cell for row in rows() for cell in row.cells if cell.program in programs]
        metafunc.parametrize("cell", cells, ids=str)


def test_the_program_has_what_the_table_says(cell, world):
    done = world.run(PRELUDE + cell.script.removeprefix("! "))
    # Exit code 127 proves nothing, because it means that the program is not installed.
    expected = done.returncode == 0 if cell.has else done.returncode not in (0, 127)
    assert expected, f"{cell.script}: exit code {done.returncode}\n{done.stdout[-3000:]}"


def test_the_page_has_the_table():
    assert "\n".join(table()) in PAGE


def test_each_missing_feature_is_argued():
    """Every N in firstbyte's column has a row in the section of reasons."""
    section = PAGE[PAGE.index("## Where firstbyte has N") :]
    missing = [row.feature for row in rows() if not row.cells[-1].has]
    assert missing
    for feature in missing:
        assert re.search(rf"^\| {re.escape(feature)} \|", section, re.MULTILINE), feature
