"""Runs the checks and prints one closing line: `N passed, N failed`.

    check.py fast       the inner loop
    check.py full       what continuous integration runs
    check.py core       what needs no server, no root and no package of the system
    check.py only NAME  the tests of one crate, or of one file of tests

Compiles the tests first. Tests mostly wait, so those of Rust, those of Python and the lints, which
compute, then run side by side. A step that counts tests adds its own counts; any other step counts
as one. The steps after a failed step still run. The report at the end has the seconds of each step,
the slowest tests, the tests not run and why, and the failures again.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import seconds
from runners import Slow, counts, reports, slow_test

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ".venv/bin/python"

# Name of the file that describes the built test programs, so that running them needs neither cargo
# nor its lock.
PROGRAMS = "test-programs.json"
# Disk space of a build from nothing, including the tests, in bytes.
BUILT = 13 << 30
# Disk space that a run needs when everything is built, in bytes: logs, caches and files of tests.
SPARE = 3 << 30
# Number of lines of a failed step that the report repeats.
REPEATED = 200
# Number of tests in the report's list of the slowest.
SLOWEST = 10
# Exit code of pytest if every test needs a right that the user does not have.
NO_TESTS = 5
# Runs three modules of Python tests at the same time. Each module starts its own server.
PYTHON_TESTS = ["-q", "-n", "3", "--dist", "loadfile", "--durations=10"]


@dataclass(frozen=True)
class Step:
    """A command of the checks, and the variables that it adds to the environment."""

    name: str
    command: list[str]
    env: dict[str, str] = field(default_factory=dict)
    # Nice value: raised for steps that compute, so that they do not delay tests, which mostly wait.
    nice: int = 0


def pytest(name: str, *folders: str) -> Step:
    """Returns the step of the tests below some folders."""
    return Step(name, [PYTHON, "-m", "pytest", *PYTHON_TESTS, *folders])


# Warnings are errors only here, because an editor should be able to compile unfinished changes.
LINTS = [
    Step("lints", ["cargo", "clippy", "--locked", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"], nice=10),
    Step("docs", ["cargo", "doc", "--locked", "--workspace", "--no-deps", "--quiet"], {"RUSTDOCFLAGS": "-D warnings"}, nice=10),
]

HOUSE = [
    Step("format", ["cargo", "fmt", "--all", "--check"]),
    Step("house rules", ["python3", "scripts/tidy.py"]),
    Step("tests of house rules", ["python3", "-m", "unittest", "discover", "-s", "scripts"]),
]

FAST = [
    *HOUSE,
    *LINTS,
    Step("packages", ["python3", "scripts/outside.py"]),
    Step("unit tests", ["cargo", "test", "--locked", "--workspace", "--lib", "--bins", "--quiet"]),
]

BUILD = [
    *HOUSE,
    Step("dependency audit", ["python3", "scripts/audit.py"]),
    Step("packages", ["python3", "scripts/outside.py"]),
    Step("test programs", ["scripts/programs.sh", PROGRAMS]),
    Step("python module", ["scripts/module.sh", "--with-tests"]),
]

RUST = [
    Step("tests", ["scripts/nextest.sh", PROGRAMS]),
    Step("documented examples", ["cargo", "test", "--locked", "--workspace", "--doc", "--quiet"], nice=10),
    *LINTS,
    Step("fuzz targets", ["scripts/fuzz.sh", "0"], nice=10),
]

SUITES = [
    pytest("python tests", "tests/python"),
    pytest("clients", "tests/clients", "tests/browser"),
    pytest("documentation", "tests/docs"),
    pytest("deployment", "tests/deploy"),
    pytest("guest", "tests/guest"),
    Step("python types", [".venv/bin/mypy"], nice=10),
    Step("python types, pyright", [".venv/bin/pyright"], nice=10),
]

# Crates whose unit tests start no server and mount nothing.
PURE = ["location", "pacing", "listing", "layout", "fetch", "transfer", "advise"]

CORE = [
    Step("tests of house rules", ["python3", "-m", "unittest", "discover", "-s", "scripts"]),
    Step(
        "core tests",
        ["cargo", "test", "--locked", "--lib", "--quiet", *[word for name in PURE for word in ["-p", f"firstbyte-{name}"]]],
    ),
]

# The groups of each mode, which run one after the other. In a group, the lists of steps run at the
# same time.
MODES: dict[str, list[list[list[Step]]]] = {
    "fast": [[FAST]],
    "core": [[CORE]],
    "full": [[BUILD], [RUST, SUITES]],
}


@dataclass
class Result:
    """Outcome of a step: its counts, seconds and failures."""

    name: str
    passed: int = 0
    failed: int = 0
    seconds: float = 0
    lines: list[str] = field(default_factory=list)
    slow: list[Slow] = field(default_factory=list)


def run(step: Step, prefix: str) -> Result:
    """Runs one step, and prints its output."""
    result = Result(step.name)

    def say(line: str) -> None:
        sys.stdout.write(f"{prefix}{line}\n")
        sys.stdout.flush()

    say(f"== {step.name}: {' '.join(step.command)}")
    began = time.monotonic()
    with subprocess.Popen(
        ["nice", "-n", str(step.nice), *step.command],
        env=os.environ | step.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout
        for line in process.stdout:
            line = line.rstrip("\n")
            say(line)
            passed, failed = counts(line)
            result.passed, result.failed = result.passed + passed, result.failed + failed
            if slow := slow_test(line):
                result.slow.append(slow)
            result.lines.append(line)
    result.seconds = time.monotonic() - began
    if result.passed + result.failed == 0:
        result.passed = int(process.returncode == 0)
    left_out = process.returncode == NO_TESTS and "pytest" in step.command
    # A runner may fail without a failed test, for example if the tests do not compile or the runner
    # crashes.
    if process.returncode != 0 and not left_out:
        result.failed = max(result.failed, 1)
    say(f"== {step.name}: {'FAILED' if result.failed else 'ok'} in {result.seconds:.0f} s")
    return result


def run_groups(groups: list[list[list[Step]]]) -> list[Result]:
    """Runs the groups one after the other. The lists of a group run at the same time."""
    results: list[Result] = []
    for group in groups:
        # The prefix shows which of the steps that run at the same time has printed a line.
        prefixes = [""] if len(group) == 1 else [f"{number} | " for number in range(1, len(group) + 1)]
        with ThreadPoolExecutor(len(group)) as pool:
            for lane in pool.map(lambda steps, prefix: [run(step, prefix) for step in steps], group, prefixes):
                results += lane
    return results


def only(name: str) -> list[list[list[Step]]]:
    """Returns the tests of one crate (`hydrate`), or of one file of tests (`sync`, `test_open`)."""
    if (ROOT / "crates" / name).is_dir():
        package = "firstbyte" if name == "firstbyte" else f"firstbyte-{name}"
        return [[[Step("tests", ["scripts/nextest.sh", "--package", package])]]]
    rust = [path for path in ROOT.glob(f"crates/*/tests/**/{name}.rs")]
    if rust:
        crate = rust[0].relative_to(ROOT).parts[1]
        chosen = f"package(firstbyte-{crate}) and (test(/^{name}::/) or binary({name}))"
        return [[[Step("tests", ["scripts/nextest.sh", "--package", f"firstbyte-{crate}", "-E", chosen])]]]
    python = [str(path) for path in ROOT.glob("tests/*/*.py") if path.stem in (name, f"test_{name}")]
    if python:
        build = [Step("test programs", ["scripts/programs.sh", PROGRAMS]), Step("python module", ["scripts/module.sh", "--with-tests"])]
        return [[[*build, Step("tests", [PYTHON, "-m", "pytest", "-q", *python])]]]
    sys.exit(f"check.py: {name} is neither a crate nor a file of tests, such as hydrate, sync or test_open")


def report(results: list[Result], not_run: list[str]) -> None:
    """Prints the seconds, the slowest tests, the tests not run, and the failures."""
    print("== seconds of each step")
    for result in results:
        print(f"{result.seconds:8.1f}  {result.name}")
    print("== slowest tests")
    for slow in sorted((slow for result in results for slow in result.slow), reverse=True)[:SLOWEST]:
        print(f"{slow.seconds:8.1f}  {slow.name}")
    for line in seconds.slower({result.name: result.seconds for result in results}):
        print(f"== slower: {line}")
    for line in not_run:
        print(f"== {line}")
    for result in results:
        if result.failed:
            print(f"== failed: {result.name}")
            print("\n".join((list(reports(result.lines)) or result.lines)[-REPEATED:]))


def short_of_space(target: Path) -> str | None:
    """Returns a line if the disk has too little free space. Without this check, steps on a full
    disk fail with errors that do not mention the disk: the compiler panics, or files are empty.
    """
    home = next(path for path in (target, *target.parents) if path.exists())
    needed = SPARE if any(target.glob("debug/deps/*")) else BUILT + SPARE
    free = shutil.disk_usage(home).free
    if free >= needed:
        return None
    return f"{home}: {free / 1e9:.0f} GB are free, and {needed / 1e9:.0f} GB may be needed; free some, or set CARGO_TARGET_DIR"


def spread_process_ids() -> None:
    """Raises the limit of process ids to the value that systemd uses. Tests end processes by their
    ids, and with only 32,768 ids an id is reused within minutes. Only root may raise the
    limit, and not in a container.
    """
    try:
        Path("/proc/sys/kernel/pid_max").write_text("4194304")
    except OSError:
        pass


def main() -> int:
    # A shell makes its background jobs ignore SIGINT, and programs would inherit that. Tests send
    # SIGINT to programs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    spread_process_ids()
    # Adds servers from PyPI. Clients from PyPI are not added, because tests find installed clients
    # themselves.
    os.environ["PATH"] += os.pathsep + str(ROOT / ".venv" / "servers")
    groups = only(sys.argv[2]) if sys.argv[1] == "only" else MODES[sys.argv[1]]
    with tempfile.NamedTemporaryFile(mode="r") as not_run:
        # Writable for every user: a test that lacks a right adds a line, and a test may run as
        # another user.
        os.chmod(not_run.name, 0o666)
        os.environ["FIRSTBYTE_NOT_RUN"] = not_run.name
        short = short_of_space(Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")))
        if short:
            print(f"== short of space: {short}", flush=True)
        results = run_groups(groups)
        report(results, not_run.read().splitlines())
        if short and any(result.failed for result in results):
            print(f"== short of space: {short}")
    print(f"{sum(r.passed for r in results)} passed, {sum(r.failed for r in results)} failed")
    return int(any(r.failed for r in results))


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
