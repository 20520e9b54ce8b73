"""The build backend of pyproject.toml: a wheel with module, program, man pages and completions.

`pip install .` calls the hooks at the end. One run of cargo compiles the program and the module,
which share their dependencies; two runs would compile most of them twice, with other features.
Maturin writes the metadata, and builds editable installations, which have no program of their own.
There is no source distribution: maturin would put the module's crates into it, and not those of the
program.
"""

import json
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
# Maturin looks for a directory of this name, which is that of the module, next to pyproject.toml.
DATA = ROOT / "firstbyte._native.data"

# Hooks of PEP 517 and 660. Only `build_wheel` and `build_editable` differ from maturin's.
__all__ = [
    "build_editable",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

# Maturin warns if pyproject.toml names another build backend.
os.environ["MATURIN_NO_MISSING_BUILD_BACKEND_WARNING"] = "1"


def cargo(*words: str) -> bytes:
    """Runs cargo in the workspace; returns its standard output."""
    if not shutil.which("cargo"):
        sys.exit("firstbyte is compiled here, and there is no cargo: install Rust by rustup, or run `make build`")
    return subprocess.run(["cargo", *words], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout


def compile_into(data: Path, *packages: str) -> Path:
    """Compiles the program and the other packages. Puts the program and its pages into `data`, in
    the directories that a wheel has for scripts and data. Returns the directory in which cargo puts
    its results.
    """
    options = [word for package in ("firstbyte-cli", *packages) for word in ("--package", package)]
    cargo("build", "--release", "--locked", "--bin", "firstbyte", *(["--lib"] if packages else []), *options)
    metadata = json.loads(cargo("metadata", "--no-deps", "--format-version", "1"))
    built = Path(metadata["target_directory"]) / "release"
    (data / "scripts").mkdir(parents=True)
    program = shutil.copy(built / "firstbyte", data / "scripts")
    subprocess.run([ROOT / "scripts" / "share.sh", program, data / "data" / "share"], check=True)
    return built


@contextmanager
def program() -> Iterator[None]:
    """Keeps the program and its pages in DATA during the block."""
    shutil.rmtree(DATA, ignore_errors=True)
    try:
        compile_into(DATA)
        yield
    finally:
        shutil.rmtree(DATA, ignore_errors=True)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 517: builds a wheel."""
    with tempfile.TemporaryDirectory() as top, tempfile.TemporaryDirectory() as packed:
        content = Path(top)
        info = content / maturin.prepare_metadata_for_build_wheel(top, config_settings)
        data = content / info.name.replace(".dist-info", ".data")
        built = compile_into(data, "firstbyte-python")
        shutil.copytree(
            ROOT / "python" / "firstbyte", content / "firstbyte", ignore=shutil.ignore_patterns("__pycache__", "*.so")
        )
        shutil.copy(built / "lib_native.so", content / "firstbyte" / "_native.abi3.so")
        pack = [sys.executable, "-m", "wheel", "pack", content, "--dest-dir", packed]
        subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
        [wheel] = Path(packed).iterdir()
        shutil.move(wheel, wheel_directory)
    return wheel.name


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 660: builds an editable wheel, with the program."""
    with program():
        return maturin.build_editable(wheel_directory, config_settings, metadata_directory)
