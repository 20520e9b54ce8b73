"""What is repeated of a failed step: the reports of cargo's programs, and pytest's."""

import unittest

from check import counts, reports

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


class Reports(unittest.TestCase):
    def test_of_cargo_are_the_blocks_of_failures(self) -> None:
        found = list(reports(CARGO))
        self.assertEqual(found[0], "failures:")
        self.assertIn("left is not right", found)
        self.assertEqual(found[-2:], ["    it_fails", ""])

    def test_of_pytest_last_to_the_end(self) -> None:
        self.assertEqual(list(reports(PYTEST)), PYTEST[1:])

    def test_counts_are_those_of_the_runners(self) -> None:
        self.assertEqual([c for line in CARGO if (c := counts(line)) != (0, 0)], [(1, 1), (1, 0)])
        self.assertEqual(counts(PYTEST[-1]), (1, 1))
        self.assertEqual(counts("10 items passed in review"), (0, 0))


if __name__ == "__main__":
    unittest.main()
