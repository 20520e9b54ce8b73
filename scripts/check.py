"""The checks, and one closing line: `N passed, N failed`.

`check.py fast` is the inner loop; `check.py full` is what continuous integration runs. What
compiles runs step by step. The suites that follow mostly wait, so cargo's run beside those of
Python. A step that counts tests (cargo test, pytest) adds its own counts; any other step counts as
one. A failed step does not hide those after it.
"""

import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

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


def run(step: Step, prefix: str) -> tuple[str, int, int]:
    """Runs one step, its output passed through; returns its name, what passed and what failed."""
    name, command, extra = step

    def say(line: str) -> None:
        sys.stdout.write(f"{prefix}{line}\n")
        sys.stdout.flush()

    say(f"== {name}: {' '.join(command)}")
    began = time.monotonic()
    passed = failed = 0
    with subprocess.Popen(
        command, env=os.environ | extra, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        for line in process.stdout:
            say(line.rstrip("\n"))
            p, f = counts(line)
            passed, failed = passed + p, failed + f
    if passed + failed == 0:
        passed = int(process.returncode == 0)
    # A runner may fail without a failed test: it did not compile, or it crashed.
    if process.returncode != 0:
        failed = max(failed, 1)
    say(f"== {name}: {'FAILED' if failed else 'ok'} in {time.monotonic() - began:.0f} s")
    return name, passed, failed


def main() -> int:
    results = []
    for group in MODES[sys.argv[1]]:
        # Shows which of the steps that run at the same time printed a line.
        prefixes = [""] if len(group) == 1 else [f"{number} | " for number in range(1, len(group) + 1)]
        with ThreadPoolExecutor(len(group)) as pool:
            for lane in pool.map(lambda steps, prefix: [run(step, prefix) for step in steps], group, prefixes):
                results += lane
    for name, _, failed in results:
        if failed:
            print(f"failed: {name}")
    print(f"{sum(p for _, p, _ in results)} passed, {sum(f for _, _, f in results)} failed")
    return int(any(f for _, _, f in results))


if __name__ == "__main__":
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    sys.exit(main())
