"""The browser that the tests of a module share."""

import shutil

import pytest
from pages import CHROMIUM_ARGS
from playwright.sync_api import sync_playwright


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM_ARGS)
        yield started
        started.close()
