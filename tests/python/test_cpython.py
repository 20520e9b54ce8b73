"""CPython's own tests pass with `os`'s functions replaced by ours."""

import json
import subprocess
import sys
from pathlib import Path

# Tests of CPython that cannot pass, each with the reason. There are none.
EXCEPTIONS: dict[str, str] = {}


def test_cpython_s_tests_of_os_glob_and_shutil_pass_with_scandir_walk_and_listdir_replaced(tmp_path):
    program = Path(__file__).with_name("cpython.py")
    done = subprocess.run([sys.executable, program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    failed = {name: text for name, text in result["failed"].items() if name not in EXCEPTIONS}
    assert not failed, "\n".join(f"{name}\n{text}" for name, text in failed.items())
    # If a test class were renamed, or a module empty, no test would run, which must be noticed.
    assert result["ran"] - result["skipped"] > 150, result
