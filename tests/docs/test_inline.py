"""Every command in backticks of README and docs runs in the world of the examples, or has a reason
not to.

A command that is only a verb must name an existing verb. A command with a placeholder (`DIR`,
`...`) cannot run.
"""

import re
import shlex

import pytest
from blocks import FENCE, pages
from serving import ROOT
from test_options import SPAN

# Pages written by the program.
GENERATED = {"options.md"}
PLACEHOLDER = re.compile(r"(?<![\w-])(?:[A-Z][A-Z0-9]{2,}|\.\.\.)(?![\w-])")
# Commands that are not run, each with the reason. Add a reason only if it is as good as these.
NOT_RUN = {
    "firstbyte advise init workload.toml --from results.jsonl": "needs what a measurement of minutes writes",
    "firstbyte advise run workload.toml --results results.jsonl": "needs what a measurement of minutes writes",
    "firstbyte bench compare before.jsonl after.jsonl": "needs what two measurements write",
    "firstbyte bench compare emulated-s1.jsonl firstbyte-verify/RUN/s1.jsonl": "needs an AWS account",
    "firstbyte bench run --dry-run": "begins with a target, which the sentence leaves out",
    "firstbyte bench run --plan plan.toml --case far --set size=64MiB": "runs in crates/cli/tests/plans.rs",
    "firstbyte layout path --find": "names an option, which needs a layout and a name",
    "firstbyte link --preset function": "names an option, which needs a server",
    "firstbyte unmount --lazy /mnt/data && mount /mnt/data": "needs a line of fstab: tests/deploy/test_operations.py",
}
# Commands that write a file, by the command that reads the file.
BEFORE = {"firstbyte advise run workload.toml": "firstbyte advise init workload.toml"}


def spans(begin: str) -> dict[str, str]:
    """Returns each inline command that begins with this text, and a page that contains the command.
    """
    found = {}
    for page in pages():
        if page.name not in GENERATED:
            text = FENCE.sub("", page.read_text())
            for span in SPAN.findall(text):
                span = span.replace("\\|", "|")
                if re.match(begin, span):
                    found.setdefault(span, page.name)
    return found


def names_a_verb(command: str) -> bool:
    return all(re.fullmatch(r"[a-z]+", word) for word in command.split()[1:3]) and len(command.split()) <= 3


def is_run(command: str) -> bool:
    return not (names_a_verb(command) or PLACEHOLDER.search(command) or command in NOT_RUN or has_options_alone(command))


def has_options_alone(command: str) -> bool:
    """Returns true for a verb with options only, without a value or operand, as in a sentence about
    the verb.
    """
    words = shlex.split(command)[2:]
    return all(word.startswith("-") for word in words) and not command.startswith("firstbyte doctor")


COMMANDS = spans(r"firstbyte [a-z-]")
RUN = sorted(command for command in COMMANDS if is_run(command))


def test_a_command_that_is_excused_is_in_the_pages():
    assert not NOT_RUN.keys() - COMMANDS.keys()


@pytest.mark.parametrize("command", sorted(filter(names_a_verb, COMMANDS)))
def test_a_verb_exists(command, world):
    done = world.run(command if command.startswith("firstbyte help ") else command.replace("firstbyte ", "firstbyte help ", 1))
    assert done.returncode == 0, f"{COMMANDS[command]}: {command}\n{done.stdout[-500:]}"


@pytest.mark.needs_root
@pytest.mark.parametrize("command", RUN)
def test_the_command_runs(command, world):
    before = next((script for begin, script in BEFORE.items() if command.startswith(begin)), "true")
    # Servers are started in the background, and must answer.
    serves = re.match(r"firstbyte (serve|link)\b", command)
    done = world.run(f"{before}\n{command}{' &' if serves else ''}")
    assert done.returncode == 0, f"{COMMANDS[command]}: {command}: exit code {done.returncode}\n{done.stdout[-2000:]}"


def test_what_make_is_asked_for_is_one_of_its_targets():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    asked = {span.split()[1]: page for span, page in spans("make [a-z]").items()}
    assert {"test", "dist"} <= asked.keys() <= targets
