"""The checks, and one closing line: `N passed, N failed`.

`check.py fast` is the inner loop; `check.py full` is what continuous integration runs. What
compiles runs step by step. The suites that follow mostly wait, so cargo's run beside those of
Python. A step that counts tests (cargo test, pytest) adds its own counts; any other step counts as
one. A failed step does not hide those after it, and what it reported is repeated at the end.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

# Warnings are errors here and nowhere else: an editor in mid-change should still compile.
DOC_ENV = {"RUSTDOCFLAGS": "-D warnings"}

Step = tuple[str, list[str], dict[str, str]]

STATIC: list[Step] = [
    ("format", ["cargo", "fmt", "--all", "--check"], {}),
    ("house rules", ["python3", "scripts/tidy.py"], {}),
    ("tests of house rules", ["python3", "-m", "unittest", "discover", "-s", "scripts"], {}),
    ("lints", ["cargo", "clippy", "--locked", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"], {}),
    ("docs", ["cargo", "doc", "--locked", "--workspace", "--no-deps", "--quiet"], DOC_ENV),
]

FAST = STATIC + [
    ("unit tests", ["cargo", "test", "--locked", "--workspace", "--lib", "--bins"], {}),
]

BUILD = STATIC + [
    ("dependency audit", ["python3", "scripts/audit.py"], {}),
    ("test programs", ["cargo", "test", "--locked", "--workspace", "--no-run", "--quiet"], {}),
    ("python module", ["scripts/module.sh", "--with-tests"], {}),
]

RUST: list[Step] = [
    ("tests", ["cargo", "test", "--locked", "--workspace", "--no-fail-fast"], {}),
]

PYTHON: list[Step] = [
    ("clients", [".venv/bin/python", "-m", "pytest", "-q", "tests/clients", "tests/browser"], {}),
    ("documentation", [".venv/bin/python", "-m", "pytest", "-q", "tests/docs"], {}),
    ("deployment", [".venv/bin/python", "-m", "pytest", "-q", "tests/deploy"], {}),
    ("python types", [".venv/bin/mypy"], {}),
    ("python types, pyright", [".venv/bin/pyright"], {}),
    ("python tests", [".venv/bin/python", "-m", "pytest", "-q", "tests/python"], {}),
]

# Each mode is a sequence of groups; the lists of steps of a group run at the same time.
MODES: dict[str, list[list[list[Step]]]] = {
    "fast": [[FAST]],
    "full": [[BUILD], [RUST, PYTHON]],
}

# `test result: ok. 12 passed; 0 failed; ...` (cargo) and `3 failed, 40 passed in 12.3s` (pytest).
CARGO = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed")
PYTEST = re.compile(r"^=*\s*(?:\d+ \w+, )*\d+ (?:passed|failed|errors?)\b.* in [\d.]+s")


def counts(line: str) -> tuple[int, int]:
    """How many tests passed and failed, where `line` is a runner's summary."""
    if found := CARGO.match(line):
        return int(found[1]), int(found[2])
    if PYTEST.match(line):
        number = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error)", line)}
        return number.get("passed", 0), number.get("failed", 0) + number.get("error", 0)
    return 0, 0


# The lines between which a runner reports its failures. Cargo has such a block for each program.
FIRST_OF_REPORT = re.compile(r"^failures:$|^=+ (?:FAILURES|ERRORS) =+$")
LAST_OF_REPORT = re.compile(r"^test result: ")
# How many lines of a failed step are repeated.
REPEATED = 200


@dataclass
class Result:
    """How a step ended."""

    name: str
    passed: int = 0
    failed: int = 0
    lines: list[str] = field(default_factory=list)


def reports(lines: list[str]) -> Iterator[str]:
    """What a runner reported of its failures, in `lines`."""
    inside = False
    for line in lines:
        inside = (inside or bool(FIRST_OF_REPORT.match(line))) and not LAST_OF_REPORT.match(line)
        if inside:
            yield line


def run(step: Step, prefix: str) -> Result:
    """Runs one step, its output passed through."""
    name, command, extra = step
    result = Result(name)

    def say(line: str) -> None:
        sys.stdout.write(f"{prefix}{line}\n")
        sys.stdout.flush()

    say(f"== {name}: {' '.join(command)}")
    began = time.monotonic()
    with subprocess.Popen(
        command, env=os.environ | extra, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        for line in process.stdout:
            line = line.rstrip("\n")
            say(line)
            passed, failed = counts(line)
            result.passed, result.failed = result.passed + passed, result.failed + failed
            result.lines.append(line)
    if result.passed + result.failed == 0:
        result.passed = int(process.returncode == 0)
    # A runner may fail without a failed test: it did not compile, or it crashed.
    if process.returncode != 0:
        result.failed = max(result.failed, 1)
    say(f"== {name}: {'FAILED' if result.failed else 'ok'} in {time.monotonic() - began:.0f} s")
    return result


def main() -> int:
    # A shell ignores SIGINT in what it runs in the background, and the tests send it to programs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    results: list[Result] = []
    for group in MODES[sys.argv[1]]:
        # Shows which of the steps that run at the same time printed a line.
        prefixes = [""] if len(group) == 1 else [f"{number} | " for number in range(1, len(group) + 1)]
        with ThreadPoolExecutor(len(group)) as pool:
            for lane in pool.map(lambda steps, prefix: [run(step, prefix) for step in steps], group, prefixes):
                results += lane
    for result in results:
        if result.failed:
            print(f"== failed: {result.name}")
            print("\n".join((list(reports(result.lines)) or result.lines)[-REPEATED:]))
    print(f"{sum(r.passed for r in results)} passed, {sum(r.failed for r in results)} failed")
    return int(any(r.failed for r in results))


if __name__ == "__main__":
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    sys.exit(main())
