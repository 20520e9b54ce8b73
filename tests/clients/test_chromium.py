"""Headless Chromium on the directory page: it lists, filters, downloads and uploads."""

import shutil

import pytest
from conftest import BIG, random_bytes
from playwright.sync_api import expect, sync_playwright
from waiting import CLIENT_TIMEOUT

# What is waited for is a state, never a duration.
PATIENCE_MS = 1000 * CLIENT_TIMEOUT
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser, served):
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_MS)
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.goto(f"{served.url}/data/")
    yield page
    page.close()
    assert problems == [], "the page must run without errors"


def entry(page, name: str):
    """The row of that name; the page keeps spare rows out of sight."""
    return page.locator("a.name", has=page.get_by_text(name, exact=True)).filter(visible=True)


def test_shows_the_entries_and_leads_into_a_directory(page):
    expect(entry(page, "big.bin")).to_be_visible()
    entry(page, "deep").click()
    entry(page, "er").click()
    expect(page.get_by_text("näme with space.txt")).to_be_visible()


def test_filters_by_name(page):
    expect(entry(page, "big.bin")).to_be_visible()
    page.get_by_role("searchbox").fill("small-07")
    expect(entry(page, "small-07")).to_be_visible()
    expect(entry(page, "big.bin")).to_have_count(0)


def test_reads_a_range_from_the_page_s_own_origin(page):
    got = page.evaluate(
        "async () => { const answer = await fetch('big.bin', {headers: {Range: 'bytes=10-13'}});"
        " return [answer.status, ...new Uint8Array(await answer.arrayBuffer())]; }"
    )
    assert got == [206, *random_bytes(1, BIG)[10:14]]


def test_uploads_a_file_in_parts_and_what_arrives_is_the_same(page, served, tmp_path):
    source = tmp_path / "from-browser.bin"
    source.write_bytes(random_bytes(9, BIG))
    page.locator("#files").set_input_files(str(source))
    expect(entry(page, "from-browser.bin")).to_be_visible()
    assert (served.root / "data" / "from-browser.bin").read_bytes() == source.read_bytes()
