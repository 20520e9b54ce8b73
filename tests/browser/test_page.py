"""The directory page in a real browser: names, order, search, size, downloads, and uploads that survive a killed browser.

    python3 tests/browser/test_page.py --binary target/debug/firstbyte [--size-mib 1024]

Needs Playwright for Python and Chromium (`--chromium`, /usr/bin/chromium unless told). Starts its own server on a free
loopback port, and ends only what it started. Exits 1 at the first thing that is not as it should be.
"""

import argparse
import hashlib
import os
import pathlib
import random
import re
import signal
import subprocess
import tempfile
import time
import urllib.request

from playwright.sync_api import expect, sync_playwright

CHROMIUM_ARGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]
PATIENCE_MS = 30_000
PART = 8 << 20
ODD_NAMES = [
    b"<img src=x onerror=document.title='owned'>", b"javascript:document.title='owned'", b"line\nbreak", b"100%41?#&.txt",
    b"bad-\xff-byte", "名前 ünï.txt".encode(), b"\xe2\x80\xaetxt.exe", b" leading space", b"file10", b"file9",
]


class Server:
    """One `firstbyte serve` process over a directory."""

    def __init__(self, binary, directory, listen="127.0.0.1:0"):
        command = [binary, "serve", directory, "--write", "--listen", listen]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        self.url = re.search(r"https?://[^\s/]+", line).group()

    def received_bytes(self):
        """Body bytes the server took, by its own count."""
        text = urllib.request.urlopen(f"{self.url}/.firstbyte/metrics").read().decode()
        return int(float(re.search(r"^firstbyte_\w*received_bytes\w* ([\d.e+]+)$", text, re.M).group(1)))

    def kill(self):
        self.process.kill()
        self.process.wait()


class Browser:
    """One Chromium process with a profile of its own."""

    def __init__(self, playwright, chromium):
        self.profile = tempfile.TemporaryDirectory()
        self.context = playwright.chromium.launch_persistent_context(
            self.profile.name, executable_path=chromium, args=CHROMIUM_ARGS, accept_downloads=True)
        self.page = self.context.pages[0]
        self.page.set_default_timeout(PATIENCE_MS)
        self.problems = []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", lambda m: m.type == "error" and self.problems.append(m.text))

    def pids(self):
        """Its processes: those that run on this profile."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if self.profile.name.encode() in (entry / "cmdline").read_bytes():
                        found.append(int(entry.name))
                except OSError:
                    pass  # it ended meanwhile
        return found

    def kill(self):
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # its parent's end took it along


def make_file(path, size, seed):
    """Writes `size` seeded random bytes; gives their SHA-256."""
    source, digest = random.Random(seed), hashlib.sha256()
    with open(path, "wb") as file:
        for start in range(0, size, 1 << 20):
            piece = source.randbytes(min(1 << 20, size - start))
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def shown_names(page):
    """Names in the rows of the document, from top to bottom."""
    return page.evaluate("""() => [...document.querySelectorAll('.spacer .row:not([hidden])')]
        .sort((a, b) => a.ariaRowIndex - b.ariaRowIndex).map((row) => row.querySelector('bdi').textContent)""")


def open_directory(page, url, entries):
    page.goto(url)
    page.wait_for_selector(f"body[data-loaded='{entries}']")


def check_listing(page, server, directory):
    folder = directory / "odd"
    folder.mkdir()
    (folder / "sub").mkdir()
    for number, name in enumerate(ODD_NAMES):
        pathlib.Path(os.fsdecode(bytes(folder) + b"/" + name)).write_bytes(b"x" * (number * 1000) + name)
    open_directory(page, f"{server.url}/odd/", len(ODD_NAMES) + 1)
    names = shown_names(page)
    assert names[0] == "sub", names
    assert names.index("file9") < names.index("file10"), "numbers in names order as numbers"
    for name in ["<img src=x onerror=document.title='owned'>", "line\\nbreak", "bad-\\xff-byte", "\\u{202e}txt.exe"]:
        assert name in names, (name, names)

    page.click("button[data-by=size]")
    by_size = shown_names(page)
    assert by_size[1] == "file9" and by_size[-1].startswith("<img"), by_size
    page.click("button[data-by=size]")
    assert shown_names(page)[-1] == "file9"

    for index, name in enumerate(ODD_NAMES):
        href = page.evaluate("(size) => all.find((entry) => entry.size === size).href", index * 1000 + len(name))
        body = page.evaluate("async (href) => (await fetch(href)).text()", href)
        assert body.startswith("x" * (index * 1000)), name
    assert page.title() == "odd", "no name ran as a script"

    page.fill(".search input", "FILE")
    assert sorted(shown_names(page)) == ["file10", "file9"]
    page.keyboard.press("Enter")
    with page.expect_download() as download:
        page.evaluate("() => { const link = document.querySelector('.row.active a'); link.download = ''; link.click(); }")
    assert sha256(download.value.path()) in [sha256(folder / "file9"), sha256(folder / "file10")]
    page.fill(".search input", "")

    page.focus(".scroller")
    page.keyboard.press("Home")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert page.url.endswith("/odd/sub/")
    expect(page.locator(".note")).to_have_text("This folder is empty.")
    print("ok: odd names listed, sorted, searched, downloaded; keyboard alone suffices")


def check_many_entries(page, server, directory):
    folder = directory / "many"
    folder.mkdir()
    for number in range(100_000):
        (folder / f"sample_{number:06}.txt").touch()
    open_directory(page, f"{server.url}/many/", 100_000)
    assert page.locator(".spacer .row").count() < 100, "only rows in view are in the document"
    expect(page.locator(".counts")).to_contain_text("100,000 files")
    page.focus(".scroller")
    page.keyboard.press("End")
    assert shown_names(page)[-1] == "sample_099999.txt"
    page.fill(".search input", "54321")
    assert shown_names(page) == ["sample_054321.txt"]
    print("ok: 100,000 entries")


def check_small_uploads(page, server, directory, scratch):
    target = directory / "inbox"
    target.mkdir()
    (target / "taken.txt").write_text("older")
    (scratch / "taken.txt").write_text("new")
    (scratch / "empty").touch()
    open_directory(page, f"{server.url}/inbox/", 1)
    page.set_input_files("#files", [scratch / "taken.txt", scratch / "empty"])
    page.get_by_role("button", name="Keep both").click()
    expect(page.locator(".uploads li.done")).to_have_count(2)
    assert (target / "taken.txt").read_text() == "older"
    assert (target / "taken (1).txt").read_text() == "new"
    assert (target / "empty").stat().st_size == 0
    page.wait_for_selector("body[data-loaded='3']")
    tree = scratch / "tree"
    (tree / "deep er").mkdir(parents=True)
    (tree / "deep er" / "a%b.txt").write_text("inside")
    page.set_input_files("#folder-input", tree)
    expect(page.locator(".uploads li.done")).to_have_count(3)
    assert (target / "tree" / "deep er" / "a%b.txt").read_text() == "inside"
    print("ok: small files and a folder uploaded, a taken name asked about")


def check_resume(playwright, options, server, directory, scratch):
    size = options.size_mib << 20
    digest = make_file(scratch / "big.bin", size, seed=7)
    inbox = directory / "inbox"
    browser = Browser(playwright, options.chromium)
    before = server.received_bytes()
    open_directory(browser.page, f"{server.url}/inbox/", 4)
    browser.page.set_input_files("#files", scratch / "big.bin")
    while not (journals := list(inbox.glob(".upload-*.journal.*"))) or journals[0].read_text().count("\n") < size // PART // 3:
        time.sleep(0.005)
    browser.kill()
    assert not (inbox / "big.bin").exists(), "the kill came too late to show anything; give a larger --size-mib"
    first = server.received_bytes() - before
    # The server too, so that what it knows is what it wrote down.
    address = server.url.removeprefix("http://")
    server.kill()
    held = journals[0].read_text().count("\n") - 1
    server = Server(options.binary, str(directory), address)

    again = Browser(playwright, options.chromium)
    open_directory(again.page, f"{server.url}/inbox/", 4)
    expect(again.page.locator(".uploads li.unfinished")).to_contain_text("big.bin")
    again.page.set_input_files("#files", scratch / "big.bin")
    expect(again.page.locator(".uploads li.done")).to_contain_text("done", timeout=PATIENCE_MS * 5)
    second = server.received_bytes()
    assert sha256(inbox / "big.bin") == digest, "the content is another"
    assert not list(inbox.glob(".upload-*")), "nothing is left beside it"
    missing = size - held * PART
    assert missing <= second <= missing + 4096, f"{second} bytes came for {missing} missing"
    assert not again.problems, again.problems
    again.context.close()
    server.kill()
    print(f"ok: {options.size_mib} MiB; browser and server killed after {first >> 20} MiB with {held} parts held; "
          f"{second >> 20} MiB came afterwards; content identical")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="target/debug/firstbyte")
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--size-mib", type=int, default=64)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        directory, scratch = pathlib.Path(place, "served"), pathlib.Path(place, "mine")
        directory.mkdir()
        scratch.mkdir()
        server = Server(options.binary, str(directory))
        try:
            browser = Browser(playwright, options.chromium)
            check_listing(browser.page, server, directory)
            check_many_entries(browser.page, server, directory)
            check_small_uploads(browser.page, server, directory, scratch)
            assert not browser.problems, browser.problems
            browser.context.close()
            check_resume(playwright, options, server, directory, scratch)
        finally:
            server.kill()


if __name__ == "__main__":
    main()
