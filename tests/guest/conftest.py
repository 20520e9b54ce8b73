"""The guest's own modules, and the list of tests that need root."""

from privileges import pytest_collection_modifyitems  # noqa: F401
