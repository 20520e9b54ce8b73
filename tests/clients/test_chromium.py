"""Headless Chromium on the directory page: it lists, filters, downloads and uploads."""

import http.client
import http.server
import shutil
import subprocess
import threading
from urllib.parse import quote

import pytest
from conftest import BIG, client, random_bytes
from playwright.sync_api import expect, sync_playwright
from serving import AWS, ROOT, key_file, serving
from waiting import CLIENT_TIMEOUT

# Timeout for waits until a state is reached, in milliseconds. No test waits for a fixed time.
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
    """Returns the row of that name. The page keeps spare rows, which are invisible."""
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


# A document whose script reports to the embedding page that it runs. The message carries the
# document's origin, which is `null` if the origin is opaque.
SCRIPT = "<!doctype html><script>parent.postMessage(location.pathname + location.search, '*')</script>"
TYPES = [
    line
    for line in (ROOT / "crates/serve/tests/content_types.txt").read_text().splitlines()
    if not line.startswith("#")
]


def put(served, path: str, content_type: str | None) -> None:
    """Stores the document with exactly this content type, as an S3 client without keys would."""
    request = http.client.HTTPConnection(*served.url.removeprefix("http://").split(":"))
    headers = {"x-amz-date": "20260101T000000Z"}
    request.request("PUT", path, SCRIPT, headers | ({"Content-Type": content_type} if content_type else {}))
    answer = request.getresponse()
    assert answer.status == 200, (content_type, answer.read())


# Opens all documents in frames, a few at a time, and collects, by origin, the paths of those whose
# script runs. A frame is done when it has loaded, or when its request has ended without a document.
OPEN = """async ([origin, targets]) => {
    const ran = {};
    addEventListener('message', event => (ran[event.origin] ??= []).push(event.data));
    window.ended = {};
    const open = target => new Promise(done => {
        const frame = document.createElement('iframe');
        const over = () => { delete window.ended[origin + target]; frame.remove(); done(); };
        window.ended[origin + target] = over;
        frame.onload = over;
        frame.src = origin + target;
        document.body.append(frame);
    });
    const queue = [...targets];
    const lane = async () => { while (queue.length) await open(queue.shift()); };
    await Promise.all(Array.from({length: 8}, lane));
    return ran;
}"""


def ran(browser, served, elsewhere, targets: list[str]) -> dict:
    """Returns the documents whose script ran in a frame, grouped by their origin."""
    context = browser.new_context(accept_downloads=False)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    # A frame whose request becomes a download never loads.
    page.on("requestfailed", lambda request: page.evaluate("url => window.ended[url]?.()", request.url))
    page.goto(elsewhere)
    found = page.evaluate(OPEN, [served.url, targets])
    context.close()
    return {origin: sorted(paths) for origin, paths in found.items()}


def test_the_measure_finds_a_document_that_runs(browser, elsewhere, tmp_path):
    """Without keys, a read-only server leaves files in its own origin, so the script runs."""
    (tmp_path / "bucket").mkdir()
    (tmp_path / "bucket" / "x.html").write_text(SCRIPT)
    with serving(tmp_path, write=False) as served:
        assert ran(browser, served, elsewhere, ["/bucket/x.html"]) == {served.url: ["/bucket/x.html"]}


def test_no_stored_document_of_any_type_runs_in_the_server_s_origin(browser, elsewhere, served):
    """Takes over two seconds: there are 200 types, and a document of each is opened under two
    names.
    """
    assert len(TYPES) >= 190
    for number, content_type in enumerate([*TYPES, None]):
        put(served, f"/data/stored-{number}", content_type)
        put(served, f"/data/stored-{number}.html", content_type)
    stored = [f"/data/stored-{number}{end}" for number in range(len(TYPES) + 1) for end in ("", ".html")]
    found = ran(browser, served, elsewhere, stored)
    # HTML does run, but in an opaque origin.
    assert list(found) == ["null"] and len(found["null"]) > 10, found


def test_no_type_that_a_link_chooses_runs_a_document_in_the_server_s_origin(browser, elsewhere, served):
    """Takes over two seconds: there is a link for each type with a comma, and for some others."""
    put(served, "/data/chosen", "text/plain")
    chosen = [content_type for content_type in TYPES if "," in content_type] + TYPES[:12]
    targets = [f"/data/chosen?x-id=GetObject&response-content-type={quote(kind, safe='')}" for kind in chosen]
    assert list(ran(browser, served, elsewhere, targets)) == ["null"]


def test_no_type_of_a_page_upload_runs_a_document_in_the_server_s_origin(page, browser, elsewhere, served):
    """The type of an uploaded file is the one that the page's own script sends."""
    kinds = ["text/html", "text/plain,text/html", "image/png;a=b,text/html", "image/svg+xml", "text/xml"]
    for number, kind in enumerate(kinds):
        begun = page.evaluate(
            """async ([name, body, type]) => {
                const ask = (method, rest, body, more) => fetch(`/.firstbyte/uploads${rest}?path=/data/`, {
                    method, body, headers: {'x-firstbyte-page': '1', ...more}});
                const about = JSON.stringify({name, size: body.length, mtime: 0, type});
                const {id} = await (await ask('POST', '', about)).json();
                const crc = [...body].reduce((crc, c) => {
                    crc ^= c.charCodeAt(0);
                    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
                    return crc;
                }, -1) ^ -1;
                const sum = (crc >>> 0).toString(16).padStart(8, '0');
                const part = await ask('PUT', `/${id}/0`, body, {'x-firstbyte-crc32c': sum});
                return [part.status, (await ask('POST', `/${id}/complete`, '{}')).status];
            }""",
            [f"page-{number}", SCRIPT, kind],
        )
        assert begun == [201, 200]
    assert list(ran(browser, served, elsewhere, [f"/data/page-{number}" for number in range(len(kinds))])) == ["null"]


@pytest.fixture
def elsewhere():
    """Serves an empty page from another origin, which is another port."""

    class Empty(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Empty) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_listed_page_of_another_port_writes_by_presigned_urls_and_reads_what_it_wrote(browser, elsewhere, tmp_path):
    (tmp_path / "root" / "data").mkdir(parents=True)
    keys = key_file(tmp_path / "keys")
    page = browser.new_page()
    page.goto(elsewhere)
    about = {"Bucket": "data", "Key": "by-page", "ContentType": "text/plain", "Metadata": {"run": "7"}}
    fetch = """async ([url, method, headers, body]) => {
        try {
            const answer = await fetch(url, {method, headers, body});
            return [answer.status, await answer.text(), answer.headers.get('etag'), answer.headers.get('x-amz-meta-run')];
        } catch (error) { return String(error); }
    }"""
    headers = {"content-type": "text/plain", "x-amz-meta-run": "7"}
    for option, allowed in [("--cors-write", True), ("--cors", False)]:
        with serving(tmp_path / "root", "--auth", str(keys), option, elsewhere) as served:
            s3 = client(served)
            put = s3.generate_presigned_url("put_object", about)
            got = page.evaluate(fetch, [put, "PUT", headers, "content"])
            assert (got[0] == 200) if allowed else ("Failed to fetch" in got), got
            get = s3.generate_presigned_url("get_object", {"Bucket": "data", "Key": "by-page"})
            status, text, etag, run = page.evaluate(fetch, [get, "GET", {"range": "bytes=0-3"}, None])
            assert (status, text, run) == (206, "cont", "7") and etag
    with serving(tmp_path / "root", "--auth", str(keys), "--cors-write", "http://other.example") as served:
        get = client(served).generate_presigned_url("get_object", {"Bucket": "data", "Key": "by-page"})
        assert "Failed to fetch" in page.evaluate(fetch, [get, "GET", {}, None])
    page.close()


# A program as web pages have it. It uses the SDK to put objects, upload in parts, list, read and
# delete.
BY_SDK = """
import * as s3 from '@aws-sdk/client-s3';
window.bySdk = async (endpoint, accessKeyId, secretAccessKey) => {
    const client = new s3.S3Client({
        endpoint, region: 'us-east-1', forcePathStyle: true, maxAttempts: 1, credentials: {accessKeyId, secretAccessKey}});
    const ask = (name, input) => client.send(new s3[name + 'Command']({Bucket: 'data', ...input}));
    await ask('PutObject', {Key: 'sdk', Body: 'content', ContentType: 'text/plain', Metadata: {run: '7'}});
    const found = await ask('GetObject', {Key: 'sdk', Range: 'bytes=0-3'});
    const {UploadId} = await ask('CreateMultipartUpload', {Key: 'sdk-parts'});
    const Parts = [];
    for (const [at, size] of [[1, 5 << 20], [2, 7]]) {
        const Body = new Uint8Array(size).fill(at);
        const {ETag, ChecksumCRC32} = await ask('UploadPart', {Key: 'sdk-parts', UploadId, PartNumber: at, Body});
        Parts.push({PartNumber: at, ETag, ChecksumCRC32});
    }
    await ask('CompleteMultipartUpload', {Key: 'sdk-parts', UploadId, MultipartUpload: {Parts}});
    const whole = await (await ask('GetObject', {Key: 'sdk-parts'})).Body.transformToByteArray();
    const listed = await ask('ListObjectsV2', {Prefix: 'sdk'});
    await ask('DeleteObjects', {Delete: {Objects: [{Key: 'sdk-parts'}]}});
    const missing = await ask('HeadObject', {Key: 'sdk-parts'}).catch(error => error.$metadata.httpStatusCode);
    return [await found.Body.transformToString(), found.ETag, found.Metadata, found.ContentRange, whole.length, whole.at(-1),
        listed.Contents.map(object => object.Key), missing];
};
"""


@pytest.fixture(scope="module")
def sdk(tmp_path_factory):
    """Bundles the program and the AWS SDK for JavaScript into one script."""
    place = tmp_path_factory.mktemp("sdk")
    (place / "page.js").write_text(BY_SDK)
    modules = ROOT / ".venv" / "browser" / "node_modules"
    (place / "node_modules").symlink_to(modules)
    bundle = ["--bundle", "--format=iife", "--log-level=error", "--outfile=bundle.js", "page.js"]
    subprocess.run([modules / ".bin" / "esbuild", *bundle], cwd=place, check=True)
    return place / "bundle.js"


def test_the_aws_sdk_for_javascript_works_from_a_listed_page_of_another_port(browser, elsewhere, sdk, tmp_path):
    (tmp_path / "root" / "data").mkdir(parents=True)
    keys = key_file(tmp_path / "keys")
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(elsewhere)
    page.add_script_tag(path=sdk)
    call = "([url, key, secret]) => window.bySdk(url, key, secret).catch(error => String(error))"
    key = [AWS["AWS_ACCESS_KEY_ID"], AWS["AWS_SECRET_ACCESS_KEY"]]
    with serving(tmp_path / "root", "--auth", str(keys), "--cors-write", elsewhere) as served:
        text, etag, metadata, part, length, last, listed, missing = page.evaluate(call, [served.url, *key])
        assert (text, metadata, part, length, last) == ("cont", {"run": "7"}, "bytes 0-3/7", (5 << 20) + 7, 2)
        assert etag and (listed, missing) == (["sdk", "sdk-parts"], 404)
    with serving(tmp_path / "root", "--auth", str(keys), "--cors", elsewhere) as served:
        assert "Failed to fetch" in page.evaluate(call, [served.url, *key])
    page.close()
