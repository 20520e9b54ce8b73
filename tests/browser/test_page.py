"""The directory page in a real browser: odd names, order, search, 100,000 entries, and uploads that
survive a killed browser and a killed server.

`UPLOAD_MIB=1024 pytest tests/browser` uploads 1 GiB instead of 64 MiB. The tests run the debug
build's `firstbyte` unless `FIRSTBYTE_BINARY` names another.
"""

import hashlib
import os
import pathlib
import random
import shutil
import signal
import tempfile

import pytest
from pages import CHROMIUM_ARGS, PATIENCE_MS, Server, open_directory, shown_names
from playwright.sync_api import expect, sync_playwright
from waiting import until

SIZE = int(os.environ.get("UPLOAD_MIB", "64")) << 20
PART = 8 << 20
ODD_NAMES = [
    b"<img src=x onerror=document.title='owned'>", b"javascript:document.title='owned'", b"line\nbreak", b"100%41?#&.txt",
    b"bad-\xff-byte", "名前 ünï.txt".encode(), b"\xe2\x80\xaetxt.exe", b" leading space", b"file10", b"file9",
]


class Browser:
    """A Chromium process with a profile of its own."""

    def __init__(self, playwright):
        self.profile = tempfile.TemporaryDirectory()
        self.context = playwright.chromium.launch_persistent_context(
            self.profile.name, executable_path=shutil.which("chromium"), args=CHROMIUM_ARGS, accept_downloads=True)
        self.page = self.context.pages[0]
        self.page.set_default_timeout(PATIENCE_MS)
        self.problems = []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", lambda m: m.type == "error" and self.problems.append(m.text))

    def pids(self):
        """Returns the ids of the processes that use this profile."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if self.profile.name.encode() in (entry / "cmdline").read_bytes():
                        found.append(int(entry.name))
                except OSError:
                    pass  # ended meanwhile
        return found

    def kill(self, pids):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # ended with its parent


def make_file(path, size, seed):
    """Writes `size` random bytes that follow from `seed`. Returns their SHA-256."""
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


def recorded_parts(directory):
    """Counts the parts in the journal of the only upload into `directory`. The first line of a
    journal is a header.
    """
    return sum(journal.read_text().count("\n") - 1 for journal in directory.glob(".firstbyte/uploads/*/journal"))


@pytest.fixture(scope="module")
def playwright():
    with sync_playwright() as started:
        yield started


@pytest.fixture
def directory(tmp_path):
    made = tmp_path / "served"
    made.mkdir()
    return made


@pytest.fixture
def scratch(tmp_path):
    made = tmp_path / "mine"
    made.mkdir()
    return made


@pytest.fixture
def serve(directory):
    """Starts servers of `directory`. At the end, stops those that still run."""
    started = []

    def start(listen="127.0.0.1:0"):
        started.append(Server(directory, listen))
        return started[-1]

    yield start
    for server in started:
        server.kill()


@pytest.fixture
def server(serve):
    return serve()


@pytest.fixture
def page(playwright):
    """Opens a page in a fresh browser. At the end, fails if a script of the page had an error."""
    browser = Browser(playwright)
    yield browser.page
    browser.context.close()
    assert not browser.problems, browser.problems


def test_odd_names_are_listed_sorted_searched_and_downloaded_by_keyboard_alone(page, server, directory):
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
        # Rows are reused, so the link of another entry must not be downloaded.
        page.evaluate("() => { const link = document.querySelector('.row.active a'); link.download = ''; link.click(); link.removeAttribute('download'); }")
    assert sha256(download.value.path()) in [sha256(folder / "file9"), sha256(folder / "file10")]
    page.fill(".search input", "")

    page.focus(".scroller")
    page.keyboard.press("Home")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert page.url.endswith("/odd/sub/")
    expect(page.locator(".note")).to_have_text("This folder is empty.")


def test_a_hundred_thousand_entries_keep_few_rows_in_the_document(page, server, directory):
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


def test_small_files_and_a_folder_arrive_and_a_taken_name_is_asked_about(page, server, directory, scratch):
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


def test_an_upload_goes_on_where_a_killed_browser_and_a_killed_server_left_it(playwright, serve, directory, scratch):
    digest = make_file(scratch / "big.bin", SIZE, seed=7)
    inbox = directory / "inbox"
    inbox.mkdir()
    server = serve()
    browser = Browser(playwright)
    open_directory(browser.page, f"{server.url}/inbox/", 0)
    # The processes are listed before the upload starts, because on a busy machine the upload could
    # end meanwhile.
    pids = browser.pids()
    browser.page.set_input_files("#files", scratch / "big.bin")
    until("parts are recorded", lambda: recorded_parts(inbox) >= SIZE // PART // 3)
    browser.kill(pids)
    assert not (inbox / "big.bin").exists(), "the kill came too late to show anything; give a larger UPLOAD_MIB"
    # Kills the server too, so that it remembers only what it has written to disk.
    address = server.url.removeprefix("http://")
    server.kill()
    held = recorded_parts(inbox)
    server = serve(address)

    again = Browser(playwright)
    open_directory(again.page, f"{server.url}/inbox/", 0)
    expect(again.page.locator(".uploads li.unfinished")).to_contain_text("big.bin")
    again.page.set_input_files("#files", scratch / "big.bin")
    expect(again.page.locator(".uploads li.done")).to_contain_text("done")
    second = server.received_bytes()
    assert sha256(inbox / "big.bin") == digest, "the content is another"
    assert not (inbox / ".firstbyte").exists(), "nothing is left beside it"
    missing = SIZE - held * PART
    assert missing <= second <= missing + 4096, f"{second} bytes came for {missing} missing"
    assert not again.problems, again.problems
    again.context.close()
