#!/usr/bin/env python3
"""Makes, destroys and lists the resources of a run, by Terraform. Called by verify.py alone.

    provision.py apply STACK DIR      reads DIR/STACK.tfvars.json, writes DIR/STACK.outputs.json
    provision.py destroy STACK DIR    destroys whatever of the stack exists
    provision.py left DIR             writes DIR/left.json: the ARNs that carry the run's tags

DIR holds copies of deploy/terraform and deploy/policies, so that what is destroyed is what was
made, whatever happened to the sources meanwhile. On SIGINT and SIGTERM Terraform completes the
change it is making, writes its state, and ends.
"""

import json
import signal
import subprocess
import sys
from pathlib import Path


class Terraform:
    """Terraform in the directory of one stack."""

    def __init__(self, stack: str, run: Path):
        self.folder = run / "terraform" / stack
        self.variables = run / f"{stack}.tfvars.json"
        self.child: subprocess.Popen | None = None
        self.interrupted = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.interrupt)

    def interrupt(self, *_) -> None:
        """Interrupts Terraform, but only once: on a second signal it would drop its work."""
        if self.child is not None and not self.interrupted:
            self.child.send_signal(signal.SIGINT)
        self.interrupted = True

    def run(self, *words: str, out=None) -> None:
        if self.interrupted:
            sys.exit(130)
        # Terraform has a process group of its own, so that it gets no signal but ours.
        command = ["terraform", f"-chdir={self.folder}", *words]
        self.child = subprocess.Popen(command, stdout=out or sys.stderr, process_group=0)
        if code := self.child.wait():
            sys.exit(code)
        self.child = None

    def change(self, *words: str) -> None:
        self.run("init", "-input=false")
        # After kill -9 of its caller, an earlier Terraform holds the lock until its change is
        # complete.
        self.run(*words, "-input=false", "-auto-approve", "-lock-timeout=20m", f"-var-file={self.variables}")

    def outputs(self) -> dict:
        path = self.folder / "outputs.json"
        with path.open("w") as file:
            self.run("output", "-json", out=file)
        return {name: output["value"] for name, output in json.loads(path.read_text()).items()}


def main() -> None:
    match sys.argv[1:]:
        case ["apply", stack, path]:
            terraform = Terraform(stack, Path(path))
            terraform.change("apply")
            Path(path, f"{stack}.outputs.json").write_text(json.dumps(terraform.outputs()))
        case ["destroy", stack, path]:
            Terraform(stack, Path(path)).change("destroy")
        case ["left", path]:
            run = Path(path)
            values = {"region": json.loads((run / "run.json").read_text())["region"], "run": run.name}
            (run / "left.tfvars.json").write_text(json.dumps(values))
            terraform = Terraform("left", run)
            terraform.change("apply")
            (run / "left.json").write_text(json.dumps(terraform.outputs()["arns"]))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
