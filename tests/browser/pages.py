"""Fixtures of the tests of pages in a browser: a server, Chromium, and axe-core."""

import os
import pathlib
import re
import shutil
import subprocess
import urllib.request

import pytest
from playwright.sync_api import expect, sync_playwright
from waiting import CLIENT_TIMEOUT

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
BINARY = os.environ.get("FIRSTBYTE_BINARY", TARGET / "debug" / "firstbyte")
AXE = ROOT / ".venv" / "browser" / "node_modules" / "axe-core" / "axe.min.js"
CHROMIUM_ARGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]
# Timeout for waits until a state is reached, in milliseconds. No test waits for a fixed time.
PATIENCE_MS = 1000 * CLIENT_TIMEOUT
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def browser():
    """Starts a Chromium, which all tests of the importing module share."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM_ARGS)
        yield started
        started.close()


class Server:
    """A `firstbyte serve` process over a directory."""

    def __init__(self, directory, listen="127.0.0.1:0", options=("--write",)):
        command = [BINARY, "serve", directory, "--listen", listen, *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        self.url = re.search(r"https?://[^\s/]+", line).group()

    def received_bytes(self):
        """Returns how many bytes of request bodies the server has received, by its own count."""
        text = urllib.request.urlopen(f"{self.url}/.firstbyte/metrics").read().decode()
        return int(float(re.search(r"^firstbyte_\w*received_bytes\w* ([\d.e+]+)$", text, re.M).group(1)))

    def kill(self):
        self.process.kill()
        self.process.wait()


def shown_names(page):
    """Returns the names in the rows of the page, in the order of the rows."""
    return page.evaluate("""() => [...document.querySelectorAll('.spacer .row:not([hidden])')]
        .sort((a, b) => a.ariaRowIndex - b.ariaRowIndex).map((row) => row.querySelector('bdi').textContent)""")


def open_directory(page, url, entries):
    page.goto(url)
    page.wait_for_selector(f"body[data-loaded='{entries}']")


def violations(page):
    """Returns the violations that axe-core finds. For each: the rule, and the first elements that
    violate it.

    The page must have been opened with `AXE` as an init script, which the page's own policy does
    not refuse.
    """
    return page.evaluate("""async () => (await axe.run(document, { resultTypes: ['violations'] })).violations
        .map((rule) => [rule.id, rule.help, rule.nodes.slice(0, 3).map((node) => node.html)])""")


def fits(page):
    """Returns true if nothing on the page, including the list, can be scrolled sideways."""
    return page.evaluate("""() => [document.documentElement, ...document.querySelectorAll('.scroller, dialog[open]')]
        .every((element) => element.scrollWidth <= element.clientWidth)""")
