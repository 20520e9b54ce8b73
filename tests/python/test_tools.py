"""A wheel installed by uv and by pipx as a tool, from a local index: the program is on the PATH,
and the module beside it.
"""

import base64
import hashlib
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import firstbyte
import pytest
from serving import CLEAN, PROGRAM
from waiting import CLIENT_TIMEOUT

PACKAGE = Path(firstbyte.__file__).parent
BIN = Path(sys.executable).parent


def record(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def wheel(folder: Path) -> Path:
    """Packs the module and the program under test into a wheel, as `pip install .` does."""
    [info] = Path(sysconfig.get_path("purelib")).glob("firstbyte-*.dist-info")
    version = info.name.removesuffix(".dist-info")
    files = {path.relative_to(PACKAGE.parent): path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".pyi", ".so", ".typed")}
    content = {str(name): path.read_bytes() for name, path in files.items()}
    content |= {f"{info.name}/{name}": (info / name).read_bytes() for name in ("METADATA", "WHEEL")}
    content[f"{version}.data/scripts/firstbyte"] = PROGRAM.read_bytes()
    lines = "".join(record(name, body) for name, body in content.items())
    tag = next(line.split()[1] for line in content[f"{info.name}/WHEEL"].decode().splitlines() if line.startswith("Tag:"))
    made = folder / f"{version}-{tag}.whl"
    with zipfile.ZipFile(made, "w") as archive:
        for name, body in content.items():
            archive.writestr(name, body)
        archive.writestr(f"{info.name}/RECORD", lines + f"{info.name}/RECORD,,\n")
    return made


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> str:
    """Makes a package index that has only this package."""
    folder = tmp_path_factory.mktemp("index") / "simple" / "firstbyte"
    folder.mkdir(parents=True)
    (folder / "index.html").write_text(f'<a href="{wheel(folder).name}">firstbyte</a>\n')
    return folder.parent.as_uri()


def run(command: list, env: dict[str, Path]) -> str:
    """Runs a command, which must succeed. Returns its output."""
    environment = CLEAN | {"PATH": f"{BIN}{os.pathsep}{CLEAN['PATH']}"} | {name: str(value) for name, value in env.items()}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=CLIENT_TIMEOUT)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def try_tool(program: Path, environments: Path) -> None:
    assert run([program, "--version"], {}).startswith("firstbyte ")
    python = environments / "firstbyte" / "bin" / "python"
    assert run([python, "-c", "import firstbyte; print(firstbyte.listdir('/'))"], {}).startswith("[")


def test_uv_installs_the_program_as_a_tool(index, tmp_path):
    env = {"UV_TOOL_DIR": tmp_path / "tools", "UV_TOOL_BIN_DIR": tmp_path / "bin", "UV_CACHE_DIR": tmp_path / "cache"}
    command = ["uv", "tool", "install", "--no-config", "--python", sys.executable, "--default-index", index, "firstbyte"]
    run(command, env)
    try_tool(tmp_path / "bin" / "firstbyte", tmp_path / "tools")


def test_pipx_installs_the_program_as_a_tool(index, tmp_path):
    env = {"PIPX_HOME": tmp_path / "home", "PIPX_BIN_DIR": tmp_path / "bin", "PIPX_MAN_DIR": tmp_path / "man"}
    # Without this, pipx would ask PyPI for a newer pip.
    env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    run(["pipx", "install", "--index-url", index, "firstbyte"], env)
    try_tool(tmp_path / "bin" / "firstbyte", tmp_path / "home" / "venvs")
