"""safetensors' `load_file` as programs call it: of a mounted object, or of a copy that is made first.

    load_file.py mount|cp|s5cmd --url URL --program FIRSTBYTE --at DIR --file FILE [--flag=--eager=1TB]

Mounts or copies `s3://bench/object`, loads it into torch CPU tensors, compares them with those of FILE, its local copy, and
prints `seconds`. Importing torch and unmounting are not timed.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mounted import Mount
from read_python import check_tensors
from safetensors.torch import load_file


@contextmanager
def near(chosen: argparse.Namespace) -> Iterator[Path]:
    """Yields the path at which the object is a file: in a mount, or copied."""
    if chosen.by == "mount":
        with Mount(chosen, None) as root:
            yield root / "object"
        return
    quiet = {"cp": [chosen.program, "-q"], "s5cmd": ["s5cmd", "--log", "error"]}[chosen.by]
    to = Path(chosen.at) / "object"
    subprocess.run([*quiet, "--endpoint-url", chosen.url, "cp", "s3://bench/object", to], check=True)
    yield to


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("by", choices=["mount", "cp", "s5cmd"])
    parser.add_argument("--url", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--at", required=True)
    parser.add_argument("--file", required=True)
    parser.add_argument("--flag", action="append", default=[], help="one more word for the mount command")
    chosen = parser.parse_args(namespace=argparse.Namespace(tool="firstbyte"))
    began = time.perf_counter()
    with near(chosen) as path:
        # Copied into memory, because `load_file` only maps the file.
        found = {name: tensor.clone() for name, tensor in load_file(path).items()}
        seconds = time.perf_counter() - began
    check_tensors(found, chosen.file)
    print(json.dumps({"seconds": seconds}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
