"""The package: its names, types and texts, and the modules that importing it loads."""

import inspect
import os
import subprocess
import sys
from importlib import metadata, resources
from pathlib import Path

import firstbyte

ROOT = Path(__file__).resolve().parents[2]


def test_every_public_name_is_documented_and_says_what_it_takes():
    for name in firstbyte.__all__:
        thing = getattr(firstbyte, name)
        assert inspect.getdoc(thing), name
        if inspect.isfunction(thing):  # A class has these sections in its methods.
            assert all(word in inspect.getdoc(thing) for word in ("Args:", "Returns:" if name != "walk" else "Yields:")), name
    assert sorted(firstbyte.__all__) == firstbyte.__all__


def test_signatures_begin_as_those_of_os():
    for name, more in (("scandir", []), ("listdir", ["options"]), ("walk", ["options"])):
        have = [*inspect.signature(getattr(firstbyte, name)).parameters.values()]
        want = inspect.signature(getattr(os, name)).parameters.values()
        assert [(p.name, p.default) for p in have if p.name not in more] == [(p.name, p.default) for p in want]
        assert [p.name for p in have if p.kind is p.VAR_KEYWORD] == more
    for name in ("is_dir", "is_file", "is_symlink", "stat", "inode"):
        have, want = getattr(firstbyte.DirEntry, name), getattr(os.DirEntry, name)
        assert inspect.signature(have) == inspect.signature(want), name


def test_importing_brings_no_other_package_along_nor_what_is_slow_to_import():
    program = "import sys; before = set(sys.modules); import firstbyte; print(sorted(set(sys.modules) - before))"
    # Runs without site packages, which might have imported any module.
    path = {"PYTHONPATH": str(Path(firstbyte.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True, env=os.environ | path)
    brought = {name.split(".")[0] for name in eval(done.stdout)}
    # Python's list of its own modules lacks the one for subinterpreters.
    assert brought - set(sys.stdlib_module_names) - {"_xxsubinterpreters"} == {"firstbyte"}
    assert not brought & {"typing", "re", "dataclasses", "collections", "contextlib", "asyncio"}


def test_asyncio_needs_no_import_of_its_own():
    program = "import firstbyte; print(firstbyte.aio.open.__module__, 'aio' in firstbyte.__all__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "firstbyte.aio False\n"


def test_the_package_is_typed_and_carries_its_version():
    assert (resources.files(firstbyte) / "py.typed").is_file()
    assert (resources.files(firstbyte) / "_native.pyi").is_file()
    assert metadata.version("firstbyte") == firstbyte.__version__


def test_the_stub_names_what_the_module_has(tmp_path):
    # Exceptions. fsspec and pyarrow have no types, so their metaclasses are not known. Names that
    # are imported or made for type checkers, and the name in an except clause, do not exist at run
    # time.
    known = [
        "firstbyte.filesystem.FirstbyteFileSystem",
        "firstbyte._arrow.pyarrow",
        "firstbyte._handler.ArrowHandler",
        "firstbyte._path.Patterns",
        "firstbyte.ray.error",
        "firstbyte.ray.pyarrow",
    ]
    (tmp_path / "known").write_text("\n".join(known))
    options = ["--mypy-config-file", ROOT / "pyproject.toml", "--allowlist", "known"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "firstbyte", *options],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
