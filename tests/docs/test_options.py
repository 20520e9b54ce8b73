"""Every option that a page gives to a verb exists.

Examples run, but tables and sentences do not. So code that begins with `firstbyte` is compared with
docs/options.md, which the program writes, and in the tables of migration.md and stores.md also code
that begins with a verb or an option.
"""

import re
import shlex
from collections import defaultdict
from pathlib import Path

from blocks import blocks, pages
from serving import ROOT

OPTIONS = (ROOT / "docs" / "options.md").read_text()
SECTION = re.compile(r"^#+ (?:firstbyte (?P<verb>[a-z ]+)|Global options)$", re.MULTILINE)
OPTION = re.compile(r"^\| (?:`(-\w)`, )?`(-[\w-]+)", re.MULTILINE)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
ENDS = {"|", "||", "&&", ";", ">", ">>", "<", "&"}
# Pages with tables that compare with other programs.
COMPARING = {"migration.md", "stores.md"}


def grammar() -> dict[str, set[str]]:
    """Returns the options of each verb, including the global ones."""
    parts = SECTION.split(OPTIONS)
    have = defaultdict(set)
    for verb, text in zip(parts[1::2], parts[2::2], strict=True):
        have[verb or ""] |= {name for pair in OPTION.findall(text) for name in pair if name}
    everywhere = have.pop("") | {"-h", "--help", "--version"}
    return {verb: options | everywhere for verb, options in have.items()}


GRAMMAR = grammar()


def options_in(words: list[str]) -> list[str]:
    """Returns the options among the words of one command. Letters that are grouped are returned one
    by one.
    """
    found = []
    for word in words:
        if word in ENDS or word == "--":
            break
        name = word.partition("=")[0]
        if re.fullmatch(r"--[a-z][a-z0-9-]*", name):
            found.append(name)
        elif re.fullmatch(r"-[a-zA-Z01]+", name):
            found += [f"-{letter}" for letter in name[1:]]
    return found


def unknown(code: str) -> list[str]:
    """Returns the options in a command that do not exist, each after its verb."""
    try:
        words = shlex.split(code, comments=True)
    except ValueError:
        words = code.split()
    # Global options may come before the verb.
    start = next((place for place, word in enumerate(words) if word in GRAMMAR), None)
    if start is None:
        return []
    verb = words[start]
    if f"{verb} {' '.join(words[start + 1 : start + 2])}" in GRAMMAR:
        verb = f"{verb} {words[start + 1]}"
    return [f"{verb} {option}" for option in options_in(words[:start] + words[start + 1 :]) if option not in GRAMMAR[verb]]


def commands() -> list[tuple[str, str]]:
    """Returns every command of the program on the pages, each with its page."""
    found = [(str(block), line) for block in blocks() if block.language == "sh" for line in block.text.splitlines()]
    found += [(page.name, span) for page in pages() for span in SPAN.findall(page.read_text())]
    return [(where, code.removeprefix("firstbyte ")) for where, code in found if code.startswith("firstbyte ")]


def compared() -> list[tuple[str, str]]:
    """Returns our side of the comparing tables, which is the code in the last cells."""
    lines = [(page.name, line) for page in pages() if page.name in COMPARING for line in page.read_text().splitlines()]
    return [(where, code) for where, line in lines if line.startswith("|") for code in SPAN.findall(line.split("|")[-2])]


def test_options_in_commands_exist():
    found = commands()
    assert len(found) > 150
    assert not [f"{where}: {wrong}" for where, code in found for wrong in unknown(code)]


def test_options_in_tables_of_habits_exist():
    found = compared()
    assert len(found) > 150
    assert not [f"{where}: {wrong}" for where, code in found for wrong in unknown(code)]
    alone = [(where, option) for where, code in found if code.startswith("-") for option in options_in(code.split())]
    all_options = set().union(*GRAMMAR.values())
    assert not [f"{where}: {option}" for where, option in alone if option not in all_options]


def test_a_wrong_option_is_found():
    assert unknown("cp -r --exclud x a b") == ["cp --exclud"]
    assert unknown("--json ls -lht --nonsense") == ["ls --nonsense"]
    assert unknown("bench run --dry-run --no") == ["bench run --no"]


def test_no_option_goes_and_none_comes_unnoticed():
    """Verbs and options cannot change unnoticed, as docs/stability.md promises."""
    common = set.intersection(*GRAMMAR.values())
    have = {f"{verb} {option}" for verb, options in GRAMMAR.items() for option in options - common}
    have |= {f"all {option}" for option in common}
    golden = Path(__file__).with_name("golden_options.txt")
    kept = set(golden.read_text().splitlines())
    gone = sorted(kept - have)
    assert not gone, f"{gone}: deprecate an option for a Y first, and say so in CHANGELOG.md; then remove it from {golden.name}"
    new = sorted(have - kept)
    assert not new, f"{new}: add them to {golden.name}"
