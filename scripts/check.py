"""The checks, in order, and one closing line: `N passed, N failed`.

`check.py fast` is the inner loop; `check.py full` is what continuous integration runs. A step that
counts tests (cargo test, pytest) adds its own counts; any other step counts as one. A failed step
does not hide those after it.
"""

import os
import re
import subprocess
import sys
import time

# Warnings are errors here and nowhere else: an editor in mid-change should still compile.
DOC_ENV = {"RUSTDOCFLAGS": "-D warnings"}

STATIC = [
    ("format", ["cargo", "fmt", "--all", "--check"], {}),
    ("house rules", ["python3", "scripts/tidy.py"], {}),
    ("tests of house rules", ["python3", "-m", "unittest", "discover", "-s", "scripts"], {}),
    ("lints", ["cargo", "clippy", "--locked", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"], {}),
    ("docs", ["cargo", "doc", "--locked", "--workspace", "--no-deps", "--quiet"], DOC_ENV),
]

FAST = STATIC + [
    ("unit tests", ["cargo", "test", "--locked", "--workspace", "--lib", "--bins"], {}),
]

FULL = STATIC + [
    ("dependency audit", ["python3", "scripts/audit.py"], {}),
    ("tests", ["cargo", "test", "--locked", "--workspace", "--no-fail-fast"], {}),
    # Some clients are functions with the package.
    ("python module", ["scripts/module.sh"], {}),
    ("clients", [".venv/bin/python", "-m", "pytest", "-q", "tests/clients", "tests/browser"], {}),
    ("documentation", [".venv/bin/python", "-m", "pytest", "-q", "tests/docs"], {}),
    ("deployment", [".venv/bin/python", "-m", "pytest", "-q", "tests/deploy"], {}),
    ("python types", [".venv/bin/mypy"], {}),
    ("python types, pyright", [".venv/bin/pyright"], {}),
    ("python tests", [".venv/bin/python", "-m", "pytest", "-q", "tests/python"], {}),
]

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


def run(name: str, command: list[str], extra: dict[str, str]) -> tuple[int, int]:
    """Runs one step, its output passed through, and returns what passed and failed in it."""
    print(f"== {name}: {' '.join(command)}", flush=True)
    began = time.monotonic()
    passed = failed = 0
    with subprocess.Popen(
        command, env=os.environ | extra, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as step:
        for line in step.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            p, f = counts(line)
            passed, failed = passed + p, failed + f
    if passed + failed == 0:
        passed = int(step.returncode == 0)
    # A runner may fail without a failed test: it did not compile, or it crashed.
    if step.returncode != 0:
        failed = max(failed, 1)
    print(f"== {name}: {'FAILED' if failed else 'ok'} in {time.monotonic() - began:.0f} s\n", flush=True)
    return passed, failed


def main() -> int:
    steps = {"fast": FAST, "full": FULL}[sys.argv[1]]
    results = [(name, *run(name, command, extra)) for name, command, extra in steps]
    for name, _, failed in results:
        if failed:
            print(f"failed: {name}")
    print(f"{sum(p for _, p, _ in results)} passed, {sum(f for _, _, f in results)} failed")
    return int(any(f for _, _, f in results))


if __name__ == "__main__":
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    sys.exit(main())
