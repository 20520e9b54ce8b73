"""Counts, slow tests and reports of failures, as cargo, nextest and pytest print them; the line of
`check.py` about a full disk."""

import tempfile
import unittest
from pathlib import Path
from unittest import mock

import check
from runners import Slow, counts, reports, slow_test

CARGO = """\
running 2 tests
test it_holds ... ok
test it_fails ... FAILED

failures:

---- it_fails stdout ----
left is not right

failures:
    it_fails

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
running 1 test
test another ... ok
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
""".splitlines()

PYTEST = """\
.F
=================================== FAILURES ===================================
E   assert 1 == 2
FAILED tests/test_it.py::test_it - assert 1 == 2
1 failed, 1 passed in 0.12s
""".splitlines()

NEXTEST = """\
        PASS [   0.012s] (1/3) firstbyte-cli::cli copy::it_holds
        FAIL [  61.250s] (2/3) firstbyte-cli::cli copy::it_fails
     TIMEOUT [ 960.000s] (3/3) firstbyte-cli::cli copy::it_hangs
------------
     Summary [  62.001s] 3 tests run: 1 passed, 1 failed, 1 timed out, 0 skipped
        FAIL [  61.250s] firstbyte-cli::cli copy::it_fails
    left is not right
""".splitlines()


class Reports(unittest.TestCase):
    def test_reports_of_cargo_are_the_blocks_of_failures(self) -> None:
        found = list(reports(CARGO))
        self.assertEqual(found[0], "failures:")
        self.assertIn("left is not right", found)
        self.assertEqual(found[-2:], ["    it_fails", ""])

    def test_reports_of_pytest_last_to_the_end(self) -> None:
        self.assertEqual(list(reports(PYTEST)), PYTEST[1:])

    def test_counts_are_those_of_the_runners(self) -> None:
        self.assertEqual([c for line in CARGO if (c := counts(line)) != (0, 0)], [(1, 1), (1, 0)])
        self.assertEqual(counts(PYTEST[-1]), (1, 1))
        self.assertEqual([c for line in NEXTEST if (c := counts(line)) != (0, 0)], [(1, 2)])
        self.assertEqual(counts("10 items passed in review"), (0, 0))

    def test_reports_of_nextest_last_from_its_summary_to_the_end(self) -> None:
        self.assertEqual(list(reports(NEXTEST)), NEXTEST[4:])

    def test_slow_tests_are_those_of_a_second_or_more(self) -> None:
        found = [slow for line in NEXTEST[:3] if (slow := slow_test(line))]
        self.assertEqual([slow.seconds for slow in found], [61.25, 960.0])
        self.assertEqual(slow_test("1.02s call     tests/a.py::test_b"), Slow(1.02, "tests/a.py::test_b"))
        self.assertIsNone(slow_test("1.02s is what it took"))


class ShortOfSpace(unittest.TestCase):
    def line(self, free: int, built: bool) -> str | None:
        with tempfile.TemporaryDirectory() as scratch, mock.patch("shutil.disk_usage") as usage:
            usage.return_value.free = free
            target = Path(scratch) / "not yet" / "target"
            if built:
                (target / "debug/deps").mkdir(parents=True)
                (target / "debug/deps/it").touch()
            return check.short_of_space(target)

    def test_a_build_from_nothing_needs_more_than_one_that_is_there(self):
        self.assertIsNone(self.line(20 << 30, built=False))
        self.assertIsNone(self.line(5 << 30, built=True))
        self.assertIn("5 GB are free", self.line(5_000_000_000, built=False) or "")
        self.assertIn("1 GB are free", self.line(1_000_000_000, built=True) or "")


if __name__ == "__main__":
    unittest.main()
