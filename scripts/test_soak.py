"""Tests that the program of the long searches starts: `make test` runs none of them."""

import subprocess
import sys
import unittest
from pathlib import Path

SOAK = Path(__file__).resolve().parent.parent / "tests/soak/soak.py"


class Soak(unittest.TestCase):
    def test_every_run_is_defined(self):
        shown = subprocess.run([sys.executable, SOAK, "--help"], capture_output=True, text=True, check=False)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("fuzz", shown.stdout)


if __name__ == "__main__":
    unittest.main()
