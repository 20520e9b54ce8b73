"""Memory does not leak: the short form of soak.py."""

import subprocess
import sys
from pathlib import Path


def test_a_million_entries_leave_no_memory_behind(many):
    soak = Path(__file__).with_name("soak.py")
    done = subprocess.run([sys.executable, soak, many, "--entries", "1000000"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
