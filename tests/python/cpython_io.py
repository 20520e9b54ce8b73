"""Runs CPython's own tests of `io` and `zipfile` where they read files, with ours.

    python tests/python/cpython_io.py

A program of its own, because replacing `io.open` affects the whole process. Prints a line of JSON:
what ran, what failed, and how many files were opened by ours.
"""

import io
import json
import os
import sys
import unittest

import firstbyte

_open = io.open
opened = 0


def ours(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None):
    """Opens a file with our `open` if `file` is a name and is only read, else with `io.open`."""
    global opened
    is_read = isinstance(mode, str) and mode in ("rb", "br")
    is_name = isinstance(file, (str, os.PathLike)) and not isinstance(file, bool)
    if is_read and is_name and opener is None and closefd and encoding is errors is newline is None:
        if os.path.isfile(file) and isinstance(os.fspath(file), str):
            opened += 1
            return firstbyte.open(file, mode, buffering)
    return _open(file, mode, buffering, encoding, errors, newline, closefd, opener)


def main() -> int:
    import test.test_io
    import test.test_zipfile

    # Sets the module names that the test classes use.
    test.test_io.load_tests(unittest.defaultTestLoader, unittest.TestSuite(), None)
    io.open = ours
    test.test_io.CIOTest.open = staticmethod(ours)
    test.test_io.CMiscIOTest.open = staticmethod(ours)
    names = ["test.test_io.CIOTest", "test.test_zipfile"]
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    result = unittest.TextTestRunner(stream=sys.stderr, verbosity=0).run(suite)
    failed = {case.id(): text for case, text in result.failures + result.errors}
    print(json.dumps({"ran": result.testsRun, "skipped": len(result.skipped), "failed": failed, "opened": opened}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
