"""Runs the image of deploy/Dockerfile without Docker: makes its root directory, and runs only the
program in it, as its user.

    image.py DIST [ARGUMENT...]     runs `firstbyte ARGUMENT...` in the image of DIST/Dockerfile

Knows the instructions that the file has: ARG, FROM of scratch or of a stage, COPY, USER, WORKDIR,
ENTRYPOINT. Any other is an error. Needs root, for chroot(2) and for another user.
"""

import json
import os
import platform
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass
class Image:
    """One stage of a Dockerfile: the files to copy, the user, the directory and the entry point."""

    copies: list[tuple[str, str]] = field(default_factory=list)
    user: tuple[int, int] = (0, 0)
    directory: str = "/"
    entrypoint: list[str] = field(default_factory=list)


def parse(text: str, arch: str) -> Image:
    """Returns the last stage of the Dockerfile, for one architecture."""
    variables, stages, image = {}, {}, None
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        rest = re.sub(r"\$\{(\w+)\}", lambda found: variables[found[1]], rest.strip())
        if not word or word.startswith("#"):
            continue
        if word == "ARG":
            name, _, value = rest.partition("=")
            variables[name] = arch if name == "TARGETARCH" else value
        elif word == "FROM":
            base, _, name = rest.partition(" AS ")
            below = Image() if base == "scratch" else stages[base]
            image = Image(list(below.copies), below.user, below.directory, list(below.entrypoint))
            stages[name or ""] = image
        elif word == "COPY":
            image.copies.append(tuple(rest.split()))
        elif word == "USER":
            image.user = tuple(map(int, rest.split(":")))
        elif word == "WORKDIR":
            image.directory = rest
        elif word == "ENTRYPOINT":
            image.entrypoint = json.loads(rest)
        else:
            raise ValueError(f"{word}: image.py does not know this instruction")
    return image


def make(image: Image, dist: Path, root: Path) -> None:
    """Copies the image's files into `root`."""
    for pattern, place in image.copies:
        found = sorted(dist.glob(pattern))
        if len(found) != 1:
            raise ValueError(f"COPY {pattern}: {len(found)} files in {dist}, one expected")
        target = root / place.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(found[0], target)
    (root / image.directory.lstrip("/")).mkdir(parents=True, exist_ok=True)


def run(image: Image, root: Path, arguments: list[str]) -> int:
    """Runs the program in `root`, as the user of the image, with PATH as the only variable. Returns
    its exit code.
    """
    child = os.fork()
    if child == 0:
        os.chroot(root)
        os.chdir(image.directory)
        uid, gid = image.user
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
        command = [*image.entrypoint, *arguments]
        os.execve(command[0], command, {"PATH": "/"})
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> int:
    dist = Path(sys.argv[1])
    image = parse((dist / "Dockerfile").read_text(), ARCHITECTURES[platform.machine()])
    with tempfile.TemporaryDirectory() as top:
        root = Path(top)
        root.chmod(0o755)
        make(image, dist, root)
        return run(image, root, sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
