"""The world of the examples, made once. `--long` runs only the examples that take minutes."""

from pathlib import Path

import privileges
import pytest
from world import World


def pytest_collection_modifyitems(config, items):
    """Marks tests that use the world as needing root, which its network needs."""
    for item in items:
        is_here = Path(__file__).parent in item.path.parents
        if is_here and "world" in getattr(item, "fixturenames", ()):
            item.add_marker("needs_root")
    privileges.pytest_collection_modifyitems(config, items)


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="run what takes minutes, as `make soak` does")


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """Makes MinIO, a web server and files, in a network namespace of their own."""
    world = World(tmp_path_factory.mktemp("world"))
    yield world
    world.close()
