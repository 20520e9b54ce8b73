"""The world of the examples, made once. `--long` runs only the examples that take minutes."""

import pytest
from privileges import pytest_collection_modifyitems  # noqa: F401
from world import World


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="run what takes minutes, as `make soak` does")


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """Makes MinIO, a web server and files."""
    world = World(tmp_path_factory.mktemp("world"))
    yield world
    world.close()
