"""The build backend of pyproject.toml: maturin's, with the program beside the module.

`pip install .` calls the two hooks at the end. Each compiles the program into the directory whose
content maturin packs as a wheel's scripts and data, has the program write its man pages and
completions there, and leaves the rest to maturin. There is no source distribution: maturin would
put the module's crates into it, and not those of the program.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import maturin
from maturin import (
    get_requires_for_build_editable,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

ROOT = Path(__file__).resolve().parent.parent
# Maturin looks for it beside pyproject.toml, by the name of the module.
DATA = ROOT / "firstbyte._native.data"

# Of the hooks, maturin's own will do but for the first two.
__all__ = [
    "build_editable",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

# It warns where another backend than its own is named.
os.environ["MATURIN_NO_MISSING_BUILD_BACKEND_WARNING"] = "1"


@contextmanager
def program() -> Iterator[None]:
    """The program and what belongs to it are in DATA for as long as the block lasts."""
    if not shutil.which("cargo"):
        sys.exit("firstbyte is compiled here, and there is no cargo: install Rust by rustup, or run `make build`")
    shutil.rmtree(DATA, ignore_errors=True)
    try:
        with tempfile.TemporaryDirectory() as root:
            subprocess.run(
                ["cargo", "install", "--locked", "--no-track", "--path", "crates/cli", "--root", root], cwd=ROOT, check=True
            )
            (DATA / "scripts").mkdir(parents=True)
            built = shutil.move(Path(root) / "bin" / "firstbyte", DATA / "scripts")
        subprocess.run([ROOT / "scripts" / "share.sh", built, DATA / "data" / "share"], check=True)
        yield
    finally:
        shutil.rmtree(DATA, ignore_errors=True)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 517: builds a wheel."""
    with program():
        return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 660: the same for `pip install -e .`."""
    with program():
        return maturin.build_editable(wheel_directory, config_settings, metadata_directory)
