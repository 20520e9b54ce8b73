"""Pages of docs/: one task each, the example first, at most 900 words; everything else is in
docs/reference/. A figure or an answer that two pages state is the same on both.
"""

import re
import subprocess
import sys

import pytest
from serving import ROOT

DOCS = ROOT / "docs"
WORDS = 900
# Pages written by the program: the whole grammar.
GENERATED = {"options.md"}
TASKS = [page for page in sorted(DOCS.glob("*.md")) if page.name not in GENERATED]


@pytest.mark.parametrize("page", TASKS, ids=lambda page: page.name)
def test_a_page_of_a_task_is_short_and_begins_with_an_example(page):
    text = page.read_text()
    assert len(text.split()) <= WORDS, f"{page.name}: move what is more to docs/reference"
    title, _, rest = text.partition("\n\n")
    assert title.startswith("# ")
    assert rest.startswith("```"), f"{page.name}: the example comes first"


def test_every_page_is_in_the_index():
    index = (DOCS / "README.md").read_text()
    pages = [page.relative_to(DOCS) for page in DOCS.rglob("*.md") if page.parent.name != "decisions" and page.name != "README.md"]
    assert not [str(page) for page in pages if not re.search(rf"\({re.escape(str(page))}[)#]", index)]


def test_the_ten_rows_are_those_of_the_raw_page():
    assert subprocess.run([sys.executable, ROOT / "scripts" / "benchmarks.py", "--check"]).returncode == 0


def test_the_answer_of_advise_is_that_of_its_reference():
    answers = re.findall(r"^```text\n(.*?)```", (DOCS / "choose-storage.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(answers) == 1
    assert answers[0] in (DOCS / "reference" / "advise.md").read_text()
