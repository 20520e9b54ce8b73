"""Runs CPython's own tests with `os.scandir`, `walk`, `listdir` and `DirEntry` replaced by ours.

    python tests/python/cpython.py

A program of its own, because replacing functions of `os` affects the whole process. Prints a line
of JSON: what ran and what failed. `os.fwalk`, `glob` and `shutil` are the standard library's, using
our `scandir`.
"""

import json
import os
import posix
import sys
import unittest

import firstbyte

# Tests of CPython for the replaced functions: whole modules, or classes in them.
SUITES = [
    "test.test_os.TestDirEntry",
    "test.test_os.TestScandir",
    "test.test_os.WalkTests",
    "test.test_os.BytesWalkTests",
    "test.test_os.FwalkTests",
    "test.test_os.BytesFwalkTests",
    "test.test_os.Pep383Tests",
    "test.test_os.OSErrorTests",
    "test.test_os.TestInvalidFD",
    # Some tests of `listdir` are in the test class of `posix`.
    *(f"test.test_posix.PosixTester.test_listdir{case}" for case in ("", "_default", "_bytes", "_bytes_like", "_fd")),
    "test.test_glob",
    "test.test_shutil",
]


def replace() -> None:
    """Replaces the functions of `os`, and those of `posix` that `os` has imported."""
    theirs = {os.scandir: firstbyte.scandir, os.listdir: firstbyte.listdir}
    for their, our in theirs.items():
        for module in (os, posix):
            setattr(module, their.__name__, our)
        if their in os.supports_fd:
            os.supports_fd.add(our)
    os.walk, os.DirEntry = firstbyte.walk, firstbyte.DirEntry


def main() -> int:
    replace()
    suite = unittest.defaultTestLoader.loadTestsFromNames(SUITES)
    result = unittest.TextTestRunner(stream=sys.stderr, verbosity=0).run(suite)
    failed = {test.id(): text for test, text in result.failures + result.errors}
    print(json.dumps({"ran": result.testsRun, "skipped": len(result.skipped), "failed": failed}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
