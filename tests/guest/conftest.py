"""Hook for the list of tests that need root. pytest puts this directory on the path of imports."""

from privileges import pytest_collection_modifyitems  # noqa: F401
