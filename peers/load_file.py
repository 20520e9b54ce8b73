"""safetensors' `load_file` as programs call it: of a mounted object, or of a copy that is made first.

    load_file.py mount|cp|s5cmd --url URL --program FIRSTBYTE --at DIR --file FILE

Brings `s3://bench/object` near, loads it into torch CPU tensors, compares them with those of FILE, its local copy, and
prints `seconds`. Importing torch is not timed.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import torch
from mounted import Mount
from safetensors.torch import load_file


def load(path: Path) -> dict[str, torch.Tensor]:
    """The tensors, in memory of their own: `load_file` maps the file."""
    return {name: tensor.clone() for name, tensor in load_file(path).items()}


def by_mount(chosen: argparse.Namespace) -> dict[str, torch.Tensor]:
    with Mount(chosen, None) as root:
        return load(root / "object")


def by_copy(chosen: argparse.Namespace) -> dict[str, torch.Tensor]:
    quiet = {"cp": [chosen.program, "-q"], "s5cmd": ["s5cmd", "--log", "error"]}[chosen.by]
    to = Path(chosen.at) / "object"
    subprocess.run([*quiet, "--endpoint-url", chosen.url, "cp", "s3://bench/object", to], check=True)
    return load(to)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("by", choices=["mount", "cp", "s5cmd"])
    parser.add_argument("--url", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--at", required=True)
    parser.add_argument("--file", required=True)
    chosen = parser.parse_args(namespace=argparse.Namespace(tool="firstbyte", flag=[]))
    began = time.perf_counter()
    found = by_mount(chosen) if chosen.by == "mount" else by_copy(chosen)
    seconds = time.perf_counter() - began
    expected = load_file(chosen.file)
    if found.keys() != expected.keys() or not all(torch.equal(found[name], expected[name]) for name in expected):
        raise SystemExit("other tensors than in the file")
    print(json.dumps({"seconds": seconds}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
