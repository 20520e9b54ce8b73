"""Runs one job of the guest: the function `main` of a module, with its arguments as strings.

The last report says that the job ended. A job that raises has no such report, and its traceback is
on the console.
"""

import importlib
import sys

from report import report


def main() -> None:
    """Runs the job that the command line names."""
    module, arguments = sys.argv[1], sys.argv[2:]
    importlib.import_module(module).main(*arguments)
    report(job="ended")


main()
