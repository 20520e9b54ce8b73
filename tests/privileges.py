"""Leaves out tests marked `needs_root` if the user is not root, and lists them as not run.

A `conftest.py` imports the hook. `make test` shows the list at the end of its output.
"""

import os
from pathlib import Path

REASON = "needs root"


def pytest_collection_modifyitems(config, items):
    """If the user is not root, leaves out marked tests, and appends their names to the file
    `FIRSTBYTE_NOT_RUN` if the variable is set.
    """
    if os.geteuid() == 0:
        return
    left_out = [item for item in items if item.get_closest_marker("needs_root")]
    if not left_out:
        return
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
    if place := os.environ.get("FIRSTBYTE_NOT_RUN"):
        with Path(place).open("a") as file:
            file.writelines(f"not run: {item.nodeid}: {REASON}\n" for item in left_out)
