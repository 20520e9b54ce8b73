"""deploy/verify against moto: a run leaves no resource, at whatever step it ends.

moto replaces AWS, and cloud.py replaces Terraform; firstbyte is a script that records its calls.
provision.py runs with Terraform itself, on a stack that needs no provider.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cloud import STACKS, Cloud
from conftest import DEPLOY, terraform
from serving import CLEAN, TARGET
from waiting import WAIT_LIMIT, until

KIT = DEPLOY / "verify" / "verify.py"
PROVISION = DEPLOY / "verify" / "provision.py"
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]

# Stand-in for firstbyte. Records each call and writes results. At the call with number KILL_AT, it
# sends the signal KILL_WITH to its caller.
STAND_IN = r"""#!/bin/sh
[ "$1" = --json ] && exit 1
echo "$*" >>"$CALLS"
for word; do last=$word; done
case $* in
*--out\ *) echo '{}' >"$last" ;;
esac
[ "$(wc -l <"$CALLS")" = "$FAIL_AT" ] && exit 1
[ "$(wc -l <"$CALLS")" = "$KILL_AT" ] || exit 0
kill -"$KILL_WITH" $PPID
exec sleep 60
"""
# Number of calls in a run: two copies, two functions that fill EFS and two suites; then a copy and
# a suite.
CALLS = 8
# Number of changes: each resource is made and then destroyed.
CHANGES = 2 * sum(map(len, STACKS.values()))


class Kit:
    """A copy of verify.py in a new directory."""

    def __init__(self, cloud: Cloud, socket: Path, folder: Path):
        self.cloud, self.folder = cloud, folder
        (folder / "bin").mkdir()
        self.program = folder / "bin" / "firstbyte"
        self.program.write_text(STAND_IN)
        self.program.chmod(0o755)
        self.calls = folder / "calls"
        (folder / "dist").mkdir()
        zips = ["function-x86_64.zip", "api-x86_64.zip", "layer-x86_64.zip", "handlers.zip"]
        for name in [*zips, "firstbyte-0.1.0-linux-x86_64"]:
            (folder / "dist" / name).touch()
        provisioner = shlex.join([sys.executable, "-S", "-E", str(Path(__file__).parent / "provisioner.py"), str(socket)])
        self.common = ["--runs", folder / "runs", "--settle", "0", "--pause", "0", "--provisioner", provisioner]

    def start(self, verb: str, *words, **env) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-S", KIT, verb, *map(str, self.common), *map(str, words)],
            env=CLEAN | {"CALLS": str(self.calls), "PATH": f"{self.folder}/bin:{os.environ['PATH']}"} | env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def begin(self, run: str, *words, **env) -> subprocess.Popen:
        self.calls.unlink(missing_ok=True)
        given = ["--region", "us-east-1", "--email", "a@example.org", "--size", "1MB", "--files", "2", "--run", run]
        given += ["--firstbyte", self.program, "--dist", self.folder / "dist"]
        return self.start("run", *given, *words, **env)

    def run(self, run: str, *words, **env) -> tuple[int, str]:
        return ended(self.begin(run, "--yes", *words, **env))

    def destroy(self, run: str) -> tuple[int, str]:
        return ended(self.start("destroy", run))

    def check(self, run: str, code: int, said: str) -> None:
        """Checks that the run was completed or interrupted, and that no resource is left. After
        kill -9, first runs `destroy`.
        """
        if code == -signal.SIGKILL:
            code, said = self.destroy(run)
            assert code == 0, said
        assert code in (0, 130), said
        assert "nothing is left" in said
        assert self.cloud.kinds(run).all() == []
        assert json.loads((self.folder / "runs" / run / "run.json").read_text())["begun"] == []


def ended(process: subprocess.Popen, text: str | None = None) -> tuple[int, str]:
    said, _ = process.communicate(text, timeout=WAIT_LIMIT)
    return process.returncode, said


@pytest.fixture(scope="module")
def cloud(moto_server, tmp_path_factory):
    socket = tmp_path_factory.mktemp("cloud") / "socket"
    return Cloud(moto_server, socket), socket


@pytest.fixture
def kit(moto, cloud, tmp_path):
    cloud[0].begin()
    return Kit(*cloud, tmp_path)


def test_a_run_makes_measures_and_destroys_in_order(kit):
    code, said = kit.run("whole")
    assert code == 0, said
    stacks = [f"{change.split()[0]} {change.split()[1]}" for change in kit.cloud.changes]
    assert list(dict.fromkeys(stacks)) == [
        *("make guard", "make s1", "destroy s1", "make s3", "destroy s3", "destroy guard")
    ]
    assert len(kit.cloud.changes) == CHANGES
    assert kit.cloud.kinds("whole").all() == []
    calls = kit.calls.read_text().splitlines()
    assert len(calls) == CALLS
    run = kit.folder / "runs" / "whole"
    measured = [call.split()[-1] for call in calls if "--suite" in call]
    assert measured == [f"{run}/{suite}.jsonl" for suite in ("s1", "s5", "s3")]
    assert all((run / f"{suite}.jsonl").exists() for suite in ("s1", "s5", "s3"))
    bought = json.loads((run / "guard.tfvars.json").read_text())
    assert bought == {"region": "us-east-1", "run": "whole", "limit_usd": 20, "email": "a@example.org"}


@pytest.mark.parametrize("suite", ["s1", "s3"])
def test_whatever_change_a_signal_meets_nothing_stays(kit, suite):
    # Every change is interrupted by one of the signals. With s3, the changes of the budget's stack
    # are left out, because s1 has tested them.
    first, last = (1, 0) if suite == "s1" else (2, 1)
    for step in range(first, 2 * len(STACKS["guard"] + STACKS[suite]) + 1 - last):
        kit.cloud.begin()
        run, number = f"{suite}-{step}", SIGNALS[step % len(SIGNALS)]
        process = kit.begin(run, "--yes", "--suite", suite)

        def hit(change, process=process, step=step, number=number):
            if change == step:
                process.send_signal(number)

        kit.cloud.on_change = hit
        kit.check(run, *ended(process))
        assert len(kit.cloud.changes) >= step


def test_whatever_call_a_signal_meets_nothing_stays(kit):
    for call in range(1, CALLS + 1):
        kit.cloud.begin()
        number = SIGNALS[call % len(SIGNALS)]
        code, said = kit.run(f"call-{call}", KILL_AT=str(call), KILL_WITH=str(int(number)))
        assert code == (-number if number == signal.SIGKILL else 130), said
        kit.check(f"call-{call}", code, said)
        assert len(kit.calls.read_text().splitlines()) == call, "a step after the signal"


def test_an_interrupted_clean_up_goes_on(kit):
    """The outcome is the same if Ctrl-C comes twice, or while resources are destroyed."""
    process = kit.begin("twice", "--yes")
    kit.cloud.on_change = lambda number: process.send_signal(signal.SIGINT)
    kit.check("twice", *ended(process))


def test_a_killed_clean_up_is_resumed(kit):
    process = kit.begin("again", "--yes")
    kit.cloud.on_change = lambda number: process.kill() if number == 10 else None
    assert ended(process)[0] == -signal.SIGKILL
    resumed = kit.start("destroy", "again")
    kit.cloud.on_change = lambda number: resumed.kill() if number == 14 else None
    assert ended(resumed)[0] == -signal.SIGKILL
    assert kit.cloud.kinds("again").all() != []
    kit.check("again", *kit.destroy("again"))


def test_the_time_limit_ends_a_run(kit):
    code, said = kit.run("late", "--limit", "0.05", KILL_AT="5", KILL_WITH="0")
    assert code == 130 and "the time limit" in said, said
    kit.check("late", code, said)


def test_a_step_that_fails_ends_the_run(kit):
    code, said = kit.run("failed", FAIL_AT="3")
    assert code == 1 and "failed with exit code 1" in said, said
    assert kit.cloud.kinds("failed").all() == []


def test_a_mistake_of_the_program_leaves_nothing_either(kit):
    kit.cloud.forgotten = "queue"
    code, said = kit.run("mistake")
    assert code == 1 and "KeyError" in said and "nothing is left" in said
    assert kit.cloud.kinds("mistake").all() == []


def test_a_job_is_submitted_to_batch(kit, moto):
    """Measures with `bench run --on batch`. moto runs no job, but reports that the job succeeded.
    """
    moto.post("/moto-api/config", b'{"batch": {"use_docker": false}}')
    kit.program.write_text(f'#!/bin/sh\n[ "$1" != bench ] || exec "{TARGET}/debug/firstbyte" "$@"\n')
    env = {"AWS_ENDPOINT_URL": moto.url, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "a"}
    code, said = kit.run("submit", "--suite", "s3", **env)
    assert code == 1 and re.search("job [0-9a-f-]+: SUCCEEDED", said), said
    assert kit.cloud.kinds("submit").all() == []


def test_what_cannot_be_destroyed_at_once_is_tried_again(kit):
    kit.cloud.refusals = 2
    code, said = kit.run("busy")
    assert code == 0, said
    assert kit.cloud.kinds("busy").all() == []


def test_what_stays_is_named(kit):
    """Terraform was killed after it had made a resource and before it recorded the resource in the
    state.
    """
    process = kit.begin("leak", "--yes")

    def leak(number):
        if number == 5:
            kit.cloud.kinds("leak").make("bucket", "firstbyte-leak-forgotten", {})

    kit.cloud.on_change = leak
    code, said = ended(process)
    assert code == 3, said
    assert "left: arn:aws:s3:::firstbyte-leak-forgotten" in said
    code, said = ended(kit.start("left", "leak"))
    assert code == 3 and "forgotten" in said


def test_nothing_is_made_without_a_yes(kit):
    for answer in ("n\n", "\n"):
        process = kit.begin("asked")
        code, said = ended(process, answer)
        assert code == 0 and "Not verified on AWS" in said and "y/N" in said
    code, said = ended(kit.begin("asked"), "")
    assert code == 1 and "give --yes" in said
    assert kit.cloud.changes == []


def test_the_cost_is_shown_with_its_sources(kit):
    kit.program = TARGET / "debug" / "firstbyte"
    _, said = ended(kit.begin("cost"), "n\n")
    total = float(re.search(r"([\d.]+) USD by list prices", said)[1])
    assert 1 < total < 20, said
    assert "AWS Price List" in said and "ec2/m6i" not in said.replace("ec2/m6i.xlarge in", "")


def test_one_program_works_on_a_run(kit):
    process = kit.begin("busy", "--yes", KILL_AT="5", KILL_WITH="0")
    until("five calls", lambda: kit.calls.exists() and len(kit.calls.read_text().splitlines()) == 5)
    code, said = kit.destroy("busy")
    assert code == 1 and "still active" in said
    process.send_signal(signal.SIGTERM)
    kit.check("busy", *ended(process))


@pytest.mark.parametrize(
    ("verb", "words", "line"),
    [
        ("destroy", ["unknown"], "no run unknown"),
        ("run", ["--region", "x-1", "--email", "a@b", "--firstbyte", "true", "--dist", "/nowhere"], "`make dist` builds them"),
        ("run", ["--region", "x-1", "--email", "a@b", "--run", "Not_A_Name"], "lower-case letters"),
        ("run", ["--region", "x-1", "--email", "a@b", "--firstbyte", "/nowhere"], "/nowhere: no such program"),
        ("run", ["--region", "x-1", "--email", "a@b", "--size", "5"], "write a number and one of GB"),
    ],
)
def test_bad_input_gets_a_line(kit, verb, words, line):
    code, said = ended(kit.start(verb, *words))
    assert code in (1, 2) and line in said and "Traceback" not in said


# A stack for Terraform that needs no provider: built-in resources create a file and remove it.
STACK = """
variable "region" { type = string }
variable "run" { type = string }
variable "wait" { type = number }
resource "terraform_data" "one" {
  input = "${path.module}/one"
  provisioner "local-exec" { command = "touch ${self.input}" }
  provisioner "local-exec" {
    when    = destroy
    command = "rm ${self.input}"
  }
}
resource "terraform_data" "two" {
  input = "${path.module}/two"
  provisioner "local-exec" { command = "touch ${self.input} && echo made two >&2 && sleep ${var.wait}" }
  provisioner "local-exec" {
    when    = destroy
    command = "rm ${self.input}"
  }
  depends_on = [terraform_data.one]
}
resource "terraform_data" "three" {
  depends_on = [terraform_data.two]
}
output "bucket" { value = "of ${var.run}" }
"""


@pytest.fixture
def stack(tmp_path):
    """Makes a run with one stack."""
    folder = tmp_path / "run" / "terraform" / "s1"
    folder.mkdir(parents=True)
    (folder / "main.tf").write_text(STACK)
    return folder


def provision(stack: Path, *words: str) -> subprocess.Popen:
    path = f"{Path(terraform()).parent}:{os.environ['PATH']}"
    env = CLEAN | {"PATH": path, "CHECKPOINT_DISABLE": "1", "TF_CLI_CONFIG_FILE": "/dev/null"}
    words = [sys.executable, PROVISION, *words, stack.parents[1]]
    return subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def variables(stack: Path, wait: int) -> None:
    values = {"region": "us-east-1", "run": "r", "wait": wait}
    (stack.parents[1] / "s1.tfvars.json").write_text(json.dumps(values))


def test_terraform_makes_and_destroys_a_stack(stack):
    variables(stack, wait=0)
    code, said = ended(provision(stack, "apply", "s1"))
    assert code == 0, said
    assert (stack / "one").exists() and (stack / "two").exists()
    assert json.loads((stack.parents[1] / "s1.outputs.json").read_text()) == {"bucket": "of r"}
    code, said = ended(provision(stack, "destroy", "s1"))
    assert code == 0, said
    assert not (stack / "one").exists() and not (stack / "two").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda s: s.name)
def test_an_interrupted_terraform_notes_what_it_made(stack, number):
    variables(stack, wait=2)
    process = provision(stack, "apply", "s1")
    until("the second resource", (stack / "two").exists)
    process.send_signal(number)
    code, said = ended(process)
    assert code != 0 and "Interrupt" in said, said
    state = json.loads((stack / "terraform.tfstate").read_text())
    made = {resource["name"] for resource in state["resources"] if resource["instances"]}
    assert made == {"one", "two"}
    code, said = ended(provision(stack, "destroy", "s1"))
    assert code == 0, said
    assert json.loads((stack / "terraform.tfstate").read_text())["resources"] == []
