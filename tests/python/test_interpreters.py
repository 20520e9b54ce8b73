"""Subinterpreters, as mod_wsgi makes them: the import is refused, and the main interpreter still
works.
"""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from waiting import WAIT_LIMIT

import firstbyte

# Functions that import the package in a subinterpreter, and functions that use it in the main
# interpreter.
PROGRAM = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

def in_another():
    other = interpreters.create()
    code = "try:\\n    import firstbyte\\nexcept ImportError as error:\\n    print('refused:', error, flush=True)"
    try:
        interpreters.run_string(other, code)
    finally:
        interpreters.destroy(other)

def here():
    import firstbyte
    with firstbyte.open(sys.argv[1], cache=False) as file:
        print('read', file.read(), len(list(firstbyte.scandir('.'))) > 0, flush=True)
"""
# Embeds Python as mod_wsgi does: in a program of the server's own, with one interpreter for each
# application.
EMBEDDING = r"""
#include <Python.h>

static int run(const char *code) {
    return PyRun_SimpleString(code);
}

int main(int count, char **arguments) {
    const char *import = "try:\n    import firstbyte\n    print('imported', flush=True)\n"
                         "except ImportError as error:\n    print('refused:', error, flush=True)\n";
    (void)count;
    (void)arguments;
    Py_Initialize();
    PyThreadState *first = PyThreadState_Get();
    for (int turn = 0; turn < 3; turn++) {
        PyThreadState *other = Py_NewInterpreter();
        if (other == NULL || run(import) != 0) return 1;
        Py_EndInterpreter(other);
        PyThreadState_Swap(first);
        if (run(import) != 0) return 1;
    }
    return Py_FinalizeEx() == 0 ? 0 : 2;
}
"""


@pytest.mark.parametrize("order", ["in_another(); here(); in_another(); here()", "here(); in_another(); here()"])
def test_a_subinterpreter_is_refused_and_the_main_one_works_on_and_ends(order, tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    command = [sys.executable, "-c", PROGRAM + order, "file"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_LIMIT, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "refused" if call == "in_another()" else "read b'content' True" for call in order.split("; ")
    ]
    refusals = [line for line in lines if line.startswith("refused")]
    assert all("subinterpreter" in line and "WSGIApplicationGroup" in line for line in refusals), lines


def test_a_program_that_embeds_several_interpreters_has_it_in_the_first_one(tmp_path):
    config = f"python{sys.version_info.major}.{sys.version_info.minor}-config"
    compiler, config = shutil.which("cc"), shutil.which(config) or str(Path(sys.base_prefix) / "bin" / config)
    (tmp_path / "embedding.c").write_text(EMBEDDING)
    flags = subprocess.check_output([config, "--cflags", "--ldflags", "--embed"], text=True).split()
    libraries = ["-Wl,-rpath," + sysconfig.get_config_var("LIBDIR")]
    subprocess.run([compiler, "-o", "embedding", "embedding.c", *flags, *libraries], cwd=tmp_path, check=True)
    packages = [str(Path(firstbyte.__file__).parents[1]), *(path for path in sys.path if path)]
    done = subprocess.run(
        [tmp_path / "embedding"], capture_output=True, text=True, timeout=WAIT_LIMIT, env={"PYTHONPATH": ":".join(packages)}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == ["refused", "imported"] * 3, done.stdout + done.stderr
