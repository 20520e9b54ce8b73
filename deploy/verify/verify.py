#!/usr/bin/env python3
"""Measures on your own AWS account what is emulated elsewhere, and destroys what it made.

    deploy/verify/verify.py run --region us-east-1 --email you@example.org
    deploy/verify/verify.py destroy RUN      # after kill -9 or a power cut
    deploy/verify/verify.py left RUN         # list what still carries the tags of a run

Not verified on AWS. A run's directory, firstbyte-verify/RUN, holds all that is known of it: which
stacks were begun, Terraform's state, results. A stack is written down before it is made, so that
`destroy` finds it whenever the run is killed.
"""

import argparse
import contextlib
import ctypes
import fcntl
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

import costs
import suites

HERE = Path(__file__).resolve().parent
DEPLOY = HERE.parent
# Exit codes, the same as those of firstbyte.
DONE, FAILED, LEFT, INTERRUPTED = 0, 1, 3, 130
# Number of attempts to destroy a stack: for some minutes AWS may refuse to delete what is in use.
ATTEMPTS = 3
# Command that makes and destroys stacks by Terraform.
TERRAFORM = [sys.executable, str(HERE / "provision.py")]
PR_SET_PDEATHSIG = 1


class Stopped(Exception):
    """The run ends early: a signal, the time limit, or a step that failed."""


class Signals:
    """Lets signals and the time limit end the current step, never the clean-up.

    The handlers only take note and pass one interruption on to the child, so that a signal at any
    instant loses nothing.
    """

    def __init__(self, limit: float):
        self.reason: str | None = None
        self.child: subprocess.Popen | None = None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: self.stop(signal.Signals(number).name))
        signal.signal(signal.SIGALRM, lambda *_: self.stop("the time limit"))
        signal.setitimer(signal.ITIMER_REAL, limit)

    def stop(self, reason: str) -> None:
        if self.reason is None:
            self.reason = reason
            say(f"{reason}: ending the current step, then everything is destroyed")
            self.interrupt()

    def interrupt(self) -> None:
        if self.child is not None:
            with contextlib.suppress(ProcessLookupError):
                self.child.send_signal(signal.SIGINT)

    def check(self) -> None:
        if self.reason is not None:
            raise Stopped(self.reason)

    @contextlib.contextmanager
    def watching(self, child: subprocess.Popen):
        """Interrupts the child if a signal arrives meanwhile, or has just arrived."""
        self.child = child
        if self.reason is not None:
            self.interrupt()
        try:
            yield
        finally:
            self.child = None


class Run:
    """A run, its directory, and the programs that it calls."""

    def __init__(self, name: str, options: argparse.Namespace):
        self.name = name
        self.options = options
        self.path = (options.runs / name).absolute()
        self.signals: Signals | None = None

    def lock(self):
        """Keeps a second program away from this run until this process ends."""
        file = (self.path / "lock").open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"verify: run {self.name} is still active; interrupt that program, and it destroys what it made")
        return file

    def state(self) -> dict:
        try:
            return json.loads((self.path / "run.json").read_text())
        except FileNotFoundError:
            sys.exit(f"verify: no run {self.name} below {self.path.parent}; give --runs the directory of its start")

    def note(self, state: dict) -> None:
        """Writes run.json, whole or not at all."""
        temporary = self.path / "run.json.new"
        with temporary.open("w") as file:
            json.dump(state, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(self.path / "run.json")

    def call(self, *words: object, protected: bool = False) -> int:
        """Runs a program to its end and returns its exit code.

        The child has a session of its own, so that Ctrl-C reaches it through this program alone, or
        not at all if `protected`. If this program dies, the child gets SIGTERM.
        """
        if self.signals and not protected:
            self.signals.check()
        say(" ".join(map(str, words)))
        child = subprocess.Popen(
            [str(word) for word in words],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=lambda: ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
            env=os.environ | dict.fromkeys(("AWS_REGION", "AWS_DEFAULT_REGION"), self.state()["region"]),
        )
        if protected or self.signals is None:
            return child.wait()
        with self.signals.watching(child):
            code = child.wait()
        self.signals.check()
        return code

    def must(self, *words: object) -> None:
        if code := self.call(*words):
            raise Stopped(f"{words[0]} failed with exit code {code}")

    def firstbyte(self, *words: object) -> None:
        self.must(self.options.firstbyte, *words)

    def apply(self, stack: str, **variables: object) -> dict:
        """Makes a stack and returns its outputs."""
        state = self.state()
        values = {"region": state["region"], "run": self.name} | variables
        (self.path / f"{stack}.tfvars.json").write_text(json.dumps(values, indent=1))
        self.note(state | {"begun": [*state["begun"], stack]})
        self.must(*self.options.provisioner, "apply", stack, self.path)
        return json.loads((self.path / f"{stack}.outputs.json").read_text())

    def destroy(self, stack: str) -> bool:
        """Destroys whatever of a stack exists. Returns false if that failed."""
        for attempt in range(ATTEMPTS):
            if self.call(*self.options.provisioner, "destroy", stack, self.path, protected=True) == 0:
                state = self.state()
                self.note(state | {"begun": [name for name in state["begun"] if name != stack]})
                return True
            time.sleep(self.options.pause * attempt)
        return False

    def destroy_all(self) -> bool:
        """Destroys all stacks that were begun, the latest first, even if one of them fails."""
        return all([self.destroy(stack) for stack in reversed(self.state()["begun"])])

    def left(self) -> list[str]:
        """Returns the names (ARNs) of what carries the tags of the run. AWS lists deleted resources
        for some minutes more, so waits until none is listed, for `--settle` seconds at most.
        """
        until = time.monotonic() + self.options.settle
        while True:
            if self.call(*self.options.provisioner, "left", self.path, protected=True) != 0:
                return ["unknown: the resources could not be listed"]
            found = json.loads((self.path / "left.json").read_text())
            if not found or time.monotonic() >= until:
                return found
            time.sleep(self.options.pause)


def say(text: str) -> None:
    print(f"verify: {text}", file=sys.stderr, flush=True)


def close(run: Run, code: int) -> int:
    """Destroys everything and says what is left."""
    destroyed = run.destroy_all()
    left = run.left()
    for arn in left:
        say(f"left: {arn}")
    if left or not destroyed:
        say(f"not everything is destroyed: try `verify.py destroy {run.name}` again, then delete by hand what it lists")
        return LEFT
    say("nothing is left")
    return code


def measure(run: Run, options: argparse.Namespace) -> None:
    """Makes each stack, runs its suites there, and destroys it."""
    run.apply("guard", limit_usd=options.budget, email=options.email)
    for stack in suites.STACKS:
        chosen = [suite for suite in stack.suites if suite in options.suite]
        if not chosen:
            continue
        outputs = run.apply(stack.name, **stack.variables(options))
        stack.prepare(run, outputs)
        for suite in chosen:
            result = run.path / f"{suite}.jsonl"
            stack.measure(run, suite, outputs, result)
            say(f"compare: {options.firstbyte} bench compare YOUR-EMULATED-{suite}.jsonl {result}")
        if not run.destroy(stack.name):
            raise Stopped(f"{stack.name} could not be destroyed")


def ask_for_consent() -> bool:
    try:
        return input("Make this in your account? [y/N] ").strip().lower() == "y"
    except EOFError:
        sys.exit("\nverify: no answer on standard input; give --yes to make it unasked")


def begin(options: argparse.Namespace) -> int:
    chosen = [stack for stack in suites.STACKS if set(stack.suites) & set(options.suite)]
    provisioner = "terraform" if options.provisioner == TERRAFORM else options.provisioner[0]
    for program in (options.firstbyte, provisioner):
        if not shutil.which(program):
            sys.exit(f"verify: {program}: no such program; install it, or give its path")
    missing = [str(path) for stack in chosen for path in stack.files(options) if not path.is_file()]
    if missing:
        sys.exit(f"verify: {', '.join(missing)}: not there; `make dist` builds them, or give --dist")
    run = Run(options.run, options)
    if run.path.exists():
        sys.exit(f"verify: {run.path} exists already: give another --run")
    print(costs.table(options))
    print(f"Limits: {options.limit:g} minutes, alarm at {options.budget:.2f} USD to {options.email}. Not verified on AWS.")
    if not options.yes and not ask_for_consent():
        return DONE
    run.path.mkdir(parents=True)
    lock = run.lock()
    for folder in ("terraform", "policies"):
        shutil.copytree(DEPLOY / folder, run.path / folder)
    run.note({"region": options.region, "begun": []})
    say(f"run {run.name}; if this program is killed: {HERE / 'verify.py'} destroy {run.name} --runs {options.runs}")
    run.signals = Signals(options.limit * 60)
    code = DONE
    try:
        measure(run, options)
    except Stopped as why:
        say(f"stopped: {why}")
        code = INTERRUPTED if run.signals.reason else FAILED
    except BaseException:
        # Clean-up also follows an error in this program.
        traceback.print_exc()
        code = FAILED
    with lock:
        return close(run, code)


def resume(options: argparse.Namespace) -> int:
    run = Run(options.run, options)
    run.state()
    with run.lock():
        # A second interruption would leave things behind once more.
        run.signals = Signals(0)
        return close(run, DONE)


def show(options: argparse.Namespace) -> int:
    run = Run(options.run, options)
    found = run.left()
    print("\n".join(found) if found else "nothing is left")
    return LEFT if found else DONE


def size(text: str) -> str:
    try:
        suites.size_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def run_name(text: str) -> str:
    """Returns the name of a run if deploy/terraform accepts it."""
    if not re.fullmatch("[a-z0-9][a-z0-9-]{0,17}[a-z0-9]", text):
        raise argparse.ArgumentTypeError("write 2 to 19 lower-case letters, digits and hyphens")
    return text


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--runs", type=Path, default=Path("firstbyte-verify"), help="directory of all runs")
    common.add_argument(
        "--provisioner",
        type=shlex.split,
        default=TERRAFORM,
        help="the command that makes and destroys; see provision.py",
    )
    common.add_argument("--settle", type=float, default=600, help="seconds to wait for AWS to forget what was deleted")
    common.add_argument("--pause", type=float, default=20, help="seconds between attempts")
    verbs = parser.add_subparsers(required=True)
    run = verbs.add_parser("run", parents=[common], help="show the cost, ask, make, measure, destroy")
    run.set_defaults(action=begin)
    run.add_argument("--region", required=True)
    run.add_argument("--email", required=True, help="address that gets the budget's alarm")
    run.add_argument("--budget", type=float, default=20, help="US dollars: the alarm, and the most for each suite")
    run.add_argument("--limit", type=float, default=180, help="minutes after which the run ends and destroys")
    run.add_argument("--suite", nargs="+", choices=["s1", "s5", "s3"], default=["s1", "s5", "s3"])
    run.add_argument("--size", default="1GB", type=size, help="size of the large object; 5GB is the published one")
    run.add_argument("--files", type=int, default=1000, help="number of small files, of 10 to 100 KB")
    run.add_argument("--firstbyte", default="firstbyte", help="the program on this machine")
    run.add_argument("--dist", type=Path, default=DEPLOY.parent / "dist", help="what `make dist` has built")
    run.add_argument("--yes", action="store_true", help="do not ask")
    run.add_argument("--run", default=time.strftime("v%m%d-%H%M%S"), type=run_name, help="name; by default the time")
    for name, action, text in (("destroy", resume, "destroy what a killed run made"), ("left", show, "list what is left")):
        verb = verbs.add_parser(name, parents=[common], help=text)
        verb.set_defaults(action=action)
        verb.add_argument("run")
    return parser.parse_args()


if __name__ == "__main__":
    options = parse()
    sys.exit(options.action(options))
