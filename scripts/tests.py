"""Builds the Rust tests and runs the test programs, two at a time, then the examples in the docs.

Most of them wait for servers, deadlines and kills more than they compute, so two at a time take
much less than one after another, as `cargo test` runs them. Those that measure keep to one of the
two: a run beside another one is noisy, and what one brings into the page cache the other would see.
"""

import json
import os
import subprocess
import sys
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

CARGO = ["cargo", "test", "--locked", "--workspace"]
AT_ONCE = 2
MEASURES = ("bench", "functions", "plans", "suites_", "mount_memory")


@dataclass
class Program:
    """A test program, and the directory that its tests expect to run in."""

    file: Path
    directory: Path

    @property
    def name(self) -> str:
        return self.file.name.rpartition("-")[0]

    def run(self) -> bool:
        """Runs it and prints its output as a whole; returns whether all its tests passed."""
        began = time.monotonic()
        environment = os.environ | {"CARGO_MANIFEST_DIR": str(self.directory)}
        done = subprocess.run(
            [self.file], cwd=self.directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        taken = f"{time.monotonic() - began:.1f} s"
        print(f"-- {self.directory.name} {self.name}, {taken}, exit code {done.returncode}\n{done.stdout}", flush=True)
        return done.returncode == 0


def build() -> list[Program]:
    """Compiles all test programs; cargo's own messages pass through."""
    command = [*CARGO, "--no-run", "--message-format=json-render-diagnostics"]
    built = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if built.returncode != 0:
        sys.exit(built.returncode)
    messages = [json.loads(line) for line in built.stdout.splitlines()]
    return [
        Program(Path(message["executable"]), Path(message["manifest_path"]).parent)
        for message in messages
        if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]
    ]


def main() -> int:
    programs = build()
    measuring = deque(program for program in programs if program.name.startswith(MEASURES))
    others = deque(program for program in programs if program not in measuring)

    def work(queues: list[deque[Program]]) -> bool:
        passed = True
        for queue in queues:
            while True:
                # Popping is atomic, and the last queue is shared by all.
                try:
                    program = queue.popleft()
                except IndexError:
                    break
                passed &= program.run()
        return passed

    with ThreadPoolExecutor(AT_ONCE) as threads:
        workers = [threads.submit(work, [measuring, others]), *(threads.submit(work, [others]) for _ in range(1, AT_ONCE))]
        passed = all([worker.result() for worker in workers])
    documented = subprocess.run([*CARGO, "--doc"])
    return 0 if passed and documented.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
