"""The directory page by keyboard alone, by axe-core, and at the widths of a phone and a desktop:
folders, renames, deletions, uploads, downloads and previews.

`PAGE_SHOTS=DIR` keeps screenshots.
"""

import os
import pathlib
import struct
import tarfile
import urllib.request
import zlib

import pytest
from pages import AXE, PATIENCE_MS, Server, browser, fits, open_directory, shown_names, violations
from playwright.sync_api import expect
from serving import key_file

SHOTS = os.environ.get("PAGE_SHOTS")
PHONE, DESKTOP = (390, 844), (1280, 800)
SIZES = pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
# Maximum number of Tab presses: three times the usual number of tab stops of a page.
MOST_TABS = 60


@pytest.fixture
def directory(tmp_path):
    made = tmp_path / "served"
    (made / "data" / "sub folder").mkdir(parents=True)
    (made / "data" / "empty").mkdir()
    (made / "data" / "sub folder" / "inner.txt").write_text("inner")
    (made / "data" / "a rather long name of a file that does not fit into one line of a phone.bin").write_bytes(b"x" * 2000)
    (made / "data" / "notes.txt").write_text("plain text\n" * 20)
    (made / "data" / "page.html").write_text("<script>document.title = 'owned'; parent.document.title = 'owned'</script>")
    (made / "data" / "drawing.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30"><script>parent.document.title = "owned"</script>'
        '<rect width="40" height="30" fill="teal"/></svg>'
    )
    (made / "data" / "picture.png").write_bytes(png(30, 20))
    return made


@pytest.fixture
def serve(directory):
    started = []

    def start(*options):
        started.append(Server(directory, options=options))
        return started[-1]

    yield start
    for server in started:
        server.kill()


@pytest.fixture
def opened(browser):
    """Opens pages of a given size. At the end, fails if any page had an error, except for the
    status `refusal`, which Chromium also reports as an error.
    """
    contexts, problems = [], []

    def start(size, refusal=None, **more):
        contexts.append(browser.new_context(viewport={"width": size[0], "height": size[1]}, accept_downloads=True, **more))
        contexts[-1].add_init_script(path=AXE)
        page = contexts[-1].new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: problems.append(str(error)))
        expected = f"status of {refusal} "
        page.on("console", lambda m: m.type == "error" and expected not in m.text and problems.append(m.text))
        return page

    yield start
    for context in contexts:
        context.close()
    assert not problems, problems


def png(width, height):
    """Returns a PNG picture of a single colour."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\x30\x90\xc0" * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def shoot(page, name):
    if SHOTS:
        page.screenshot(path=pathlib.Path(SHOTS) / f"{name}.png")


def tab_to(page, locator, key="Tab"):
    """Presses Tab until `locator` has the focus."""
    for _ in range(MOST_TABS):
        if locator.evaluate("(element) => element === document.activeElement"):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{key} does not lead to {locator}")


def row(page, name):
    return page.locator(".spacer .row", has=page.locator("bdi", has_text=name)).filter(visible=True)


def arrow_to(page, control, name):
    """Moves with the arrow keys from the tab stop of the list to the row of that name."""
    tab_to(page, page.locator(f".spacer .row:not([hidden]) {control}[tabindex='0']"))
    page.keyboard.press("Home")
    for _ in range(MOST_TABS):
        if row(page, name).locator(control).evaluate("(element) => element === document.activeElement"):
            return
        page.keyboard.press("ArrowDown")
    raise AssertionError(f"the arrow keys do not lead to {name}")


@SIZES
def test_folders_renames_deletions_and_uploads_by_keyboard_alone(serve, opened, directory, tmp_path, size):
    data = directory / "data"
    page = opened(size)
    # A listener makes Chromium intercept file choosers. Chromium does not confirm that, so the
    # listener is added long before the first chooser opens.
    page.on("filechooser", lambda chooser: None)
    open_directory(page, f"{serve('--write').url}/data/", 7)

    def button(name):
        return page.get_by_role("button", name=name, exact=True)

    def settled(name):
        """Waits for the row of that name, and then until the list is redrawn, which takes the focus
        away.
        """
        expect(row(page, name)).to_be_visible()
        page.wait_for_load_state("networkidle")

    tab_to(page, button("New folder"))
    page.keyboard.press("Enter")
    page.keyboard.type("made by keys")
    page.keyboard.press("Enter")
    settled("made by keys")
    assert (data / "made by keys").is_dir()

    arrow_to(page, ".pick input", "notes.txt")
    page.keyboard.press("Space")
    expect(page.get_by_role("link", name="Download 1 selected")).to_be_visible()
    tab_to(page, button("Rename"), "Shift+Tab")
    page.keyboard.press("Space")
    # The name's stem is selected, as in a file manager, so typing replaces only the stem.
    page.keyboard.type("renamed")
    page.keyboard.press("Enter")
    settled("renamed.txt")
    assert (data / "renamed.txt").exists() and not (data / "notes.txt").exists()

    arrow_to(page, ".pick input", "sub folder")
    page.keyboard.press("Space")
    tab_to(page, button("Delete"), "Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#ask-text")).to_contain_text("emptied after 7 days")
    page.keyboard.press("Enter")
    expect(row(page, "sub folder")).to_have_count(0)
    assert not (data / "sub folder").exists()
    tab_to(page, button("Undo: delete sub folder"))
    page.keyboard.press("Enter")
    settled("sub folder")
    assert (data / "sub folder" / "inner.txt").read_text() == "inner"

    source = tmp_path / "uploaded.txt"
    source.write_text("from the keyboard")
    tab_to(page, button("Upload"), "Shift+Tab")
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Enter")
    chooser.value.set_files(source)
    settled("uploaded.txt")
    assert (data / "uploaded.txt").read_text() == "from the keyboard"

    arrow_to(page, "a.name", "sub folder")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert page.url.endswith("/data/sub%20folder/")


def test_deletions_are_undone_after_other_changes_the_latest_first(serve, opened, directory):
    page, data = opened(DESKTOP), directory / "data"
    open_directory(page, f"{serve('--write').url}/data/", 7)

    def delete(name):
        row(page, name).locator("input").check()
        page.get_by_role("button", name="Delete", exact=True).click()
        page.locator("#ask-yes").click()
        expect(row(page, name)).to_have_count(0)

    delete("notes.txt")
    page.get_by_role("button", name="New folder").click()
    page.keyboard.type("made since")
    page.keyboard.press("Enter")
    expect(row(page, "made since")).to_be_visible()
    delete("picture.png")
    page.get_by_role("button", name="Undo: delete picture.png").click()
    expect(row(page, "picture.png")).to_be_visible()
    page.get_by_role("button", name="Undo: delete notes.txt").click()
    expect(row(page, "notes.txt")).to_be_visible()
    expect(page.locator("#undo")).to_be_hidden()
    assert (data / "notes.txt").exists() and (data / "picture.png").exists()


def test_a_name_that_is_taken_is_said_in_the_dialog_and_changes_nothing(serve, opened, directory):
    page = opened(DESKTOP, refusal=409)
    open_directory(page, f"{serve('--write').url}/data/", 7)
    page.get_by_role("button", name="New folder").click()
    page.keyboard.type("empty")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("exists already")
    page.keyboard.press("Escape")
    expect(page.locator("#ask")).not_to_be_visible()
    assert len(shown_names(page)) == 7


@SIZES
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_and_nothing_scrolls_sideways(serve, opened, directory, size, scheme):
    (directory / "many").mkdir()
    for number in range(300):
        (directory / "many" / f"file {number}").touch()
    url = serve("--write").url
    page = opened(size, color_scheme=scheme)

    def check(name):
        assert violations(page) == [], name
        assert fits(page), name
        shoot(page, f"{name}-{size[0]}-{scheme}")

    open_directory(page, f"{url}/data/empty/", 0)
    check("empty")
    open_directory(page, f"{url}/many/", 300)
    page.locator(".pick input").nth(3).check()
    page.keyboard.press("End")
    check("many")
    open_directory(page, f"{url}/data/", 7)
    check("full")
    page.get_by_role("button", name="New folder").click()
    check("new-folder")
    page.keyboard.press("Escape")
    row(page, "notes.txt").locator("input").check()
    page.get_by_role("button", name="Delete").click()
    check("delete")
    page.get_by_role("button", name="Delete", exact=True).last.click()
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    check("deleted")
    page.get_by_role("button", name="Undo").click()
    for name in ["notes.txt", "picture.png"]:
        row(page, name).locator("a.name").click()
        expect(page.locator("#preview")).to_be_visible()
        check(f"preview-{name}")
        page.keyboard.press("Escape")
    (directory.parent / "page.html").write_text("another of the same name")
    page.set_input_files("#files", directory.parent / "page.html")
    expect(page.get_by_role("button", name="Keep both")).to_be_visible()
    check("asked")


@SIZES
def test_axe_finds_nothing_on_a_read_only_page_and_on_the_sign_in_form(serve, opened, tmp_path, size):
    page = opened(size)
    open_directory(page, f"{serve().url}/data/", 7)
    assert page.get_by_role("button", name="Delete").count() == 0
    assert (violations(page), fits(page)) == ([], True)
    shoot(page, f"read-only-{size[0]}")
    keys = key_file(tmp_path / "keys", "ann s3cret read data/empty\n")
    form = opened(size, refusal=401)
    form.goto(f"{serve('--auth', str(keys)).url}/.firstbyte/login")
    assert (violations(form), fits(form)) == ([], True)


def test_the_rows_are_a_table_and_its_links_are_links(serve, opened):
    page = opened(DESKTOP)
    open_directory(page, f"{serve().url}/data/", 7)
    table = page.get_by_role("table", name="Files and folders")
    assert table.get_by_role("columnheader").count() == 5
    assert table.get_by_role("row").count() == 8
    expect(table.get_by_role("link", name="sub folder", exact=True)).to_be_visible()
    assert table.get_by_role("checkbox", name="Select notes.txt").count() == 1
    expect(page.get_by_role("heading", level=1)).to_have_text("data")


def test_the_button_that_uploads_a_folder_says_so(serve, opened):
    page = opened(PHONE)
    open_directory(page, f"{serve('--write').url}/data/", 7)
    expect(page.get_by_role("button", name="Upload folder")).to_have_text("Upload folder")


def test_a_row_is_downloaded_and_its_link_copied(serve, opened):
    page = opened(DESKTOP)
    served = serve()
    open_directory(page, f"{served.url}/data/", 7)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    with page.expect_download() as download:
        page.get_by_role("link", name="Download notes.txt").click()
    assert download.value.suggested_filename == "notes.txt"
    # If the server has no keys, the plain address is copied.
    page.get_by_role("button", name="Copy link to notes.txt").click()
    expect(page.locator("#done")).to_have_text("Copied the link to notes.txt.")
    assert page.evaluate("navigator.clipboard.readText()") == f"{served.url}/data/notes.txt"


def test_a_signed_link_opens_a_file_without_a_key(serve, opened, tmp_path):
    keys = key_file(tmp_path / "keys", "ann s3cret read data\n")
    page = opened(DESKTOP, refusal=401)
    served = serve("--auth", str(keys))
    page.goto(f"{served.url}/.firstbyte/login")
    page.get_by_label("Key").fill("ann")
    page.get_by_label("Secret").fill("s3cret")
    page.get_by_role("button", name="Sign in").click()
    open_directory(page, f"{served.url}/data/", 7)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link to notes.txt").click()
    expect(page.locator("#done")).to_contain_text("Anyone who has it can read the file until")
    link = page.evaluate("navigator.clipboard.readText()")
    with urllib.request.urlopen(link) as answer:
        assert answer.status == 200


def archive(download):
    with tarfile.open(download.path()) as tar:
        return {member.name: tar.extractfile(member).read() if member.isfile() else None for member in tar}


def test_a_folder_and_a_selection_arrive_as_a_tar_file(serve, opened, directory):
    page = opened(DESKTOP)
    open_directory(page, f"{serve().url}/data/", 7)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download folder").click()
    assert download.value.suggested_filename == "data.tar"
    found = archive(download.value)
    assert found["data/sub folder/inner.txt"] == b"inner" and found["data/empty"] is None
    assert len(found) == 9

    for name in ["sub folder", "notes.txt"]:
        row(page, name).locator("input").check()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download 2 selected").click()
    assert sorted(archive(download.value)) == ["notes.txt", "sub folder", "sub folder/inner.txt"]

    row(page, "sub folder").locator("input").uncheck()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download 1 selected").click()
    assert pathlib.Path(download.value.path()).read_bytes() == (directory / "data" / "notes.txt").read_bytes()


def test_images_and_texts_are_previewed_and_run_nothing(serve, opened):
    url = serve("--write").url
    page = opened(DESKTOP)
    open_directory(page, f"{url}/data/", 7)
    content = page.locator("#preview .shown")
    for name, width in [("picture.png", 30), ("drawing.svg", 40)]:
        row(page, name).locator("a.name").click()
        expect(content.locator("img")).to_have_js_property("naturalWidth", width)
        assert content.locator("img").get_attribute("alt") == name
        page.keyboard.press("Escape")
    row(page, "page.html").locator("a.name").click()
    expect(content.locator("pre")).to_contain_text("<script>document.title")
    assert page.title() == "data", "nothing in a stored document ran in the page"
    # Opening a document from the preview shows the stored document, with its own policy.
    with page.expect_navigation():
        page.get_by_role("link", name="Open", exact=True).click()
    assert page.evaluate("origin") == "null"
    for name in ["page.html", "drawing.svg"]:
        with urllib.request.urlopen(f"{url}/data/{name}") as answer:
            assert answer.headers["content-security-policy"].startswith("sandbox ")
            assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_long_text_is_shown_in_part(serve, opened, directory):
    (directory / "data" / "long.log").write_text("0123456789abcde\n" * 10_000)
    page = opened(DESKTOP)
    open_directory(page, f"{serve().url}/data/", 8)
    row(page, "long.log").locator("a.name").click()
    expect(page.locator("#preview .state")).to_have_text("The first 64 KiB of 156 KiB")
    assert len(page.locator("#preview pre").text_content()) == 64 * 1024
