"""Types of receipts, and properties of written objects."""

import base64
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import firstbyte
import pytest
from firstbyte._receipt import Failed, Receipt
from serving import ROOT


def test_the_types_have_the_fields_of_the_golden_receipt():
    golden = json.loads((ROOT / "crates" / "firstbyte" / "tests" / "golden" / "receipt-1.json").read_text())
    assert set(golden) == set(Receipt.__annotations__)
    assert set(golden["failed"][0]) == set(Failed.__annotations__)


def test_a_copy_takes_the_options_of_the_program(minio, tmp_path):
    (tmp_path / "data.bin").write_bytes(b"content")
    options = {"content_type": "text/x-own", "cache_control": "max-age=60", "metadata": {"Run": "7"}, "tags": {"lab": "x"}}
    firstbyte.cp(tmp_path / "data.bin", "s3://bucket/described", concurrency=2, **options, **minio.options)
    head = minio.client.head_object(Bucket="bucket", Key="described")
    assert (head["ContentType"], head["CacheControl"], head["Metadata"]["run"]) == ("text/x-own", "max-age=60", "7")
    tags = minio.client.get_object_tagging(Bucket="bucket", Key="described")["TagSet"]
    assert tags == [{"Key": "lab", "Value": "x"}]


def test_a_copy_takes_an_expiry_and_may_guess_no_content_type(minio, tmp_path):
    (tmp_path / "page.html").write_bytes(b"content")
    for copy, name in ((firstbyte.cp, "page.html"), (firstbyte.sync, "tree")):
        (tmp_path / "tree").mkdir(exist_ok=True)
        (tmp_path / "tree" / "page.html").write_bytes(b"content")
        for key, options in (("guessed", {}), ("plain", {"guess_mime_type": False, "expires": "2027-01-01T00:00:00Z"})):
            target = f"s3://bucket/{name}-{key}"
            copy(tmp_path / name, target, **options, **minio.options)
            object_key = f"{name}-{key}" + ("/page.html" if copy is firstbyte.sync else "")
            head = minio.client.head_object(Bucket="bucket", Key=object_key)
            assert ("html" in head["ContentType"]) == (key == "guessed"), head
            assert head.get("ExpiresString") == ("Fri, 01 Jan 2027 00:00:00 GMT" if options else None)
    with pytest.raises(ValueError, match="expires: write a time"):
        firstbyte.cp(tmp_path / "page.html", "s3://bucket/x", expires="tomorrow", **minio.options)


@contextmanager
def recorded():
    """Starts a store in which every object exists and is empty. Also yields the heads of its
    requests.
    """
    heads = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            heads.append((self.command, dict(self.headers)))
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(200)
            self.send_header("etag", '"1"')
            self.send_header("content-length", "0")
            self.end_headers()

        do_GET = do_HEAD = do_PUT = answer

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", heads
    finally:
        server.shutdown()
        server.server_close()


def test_objects_are_written_and_read_with_a_key_of_ones_own(tmp_path):
    key = tmp_path / "key"
    key.write_bytes(bytes(range(32)))
    source = tmp_path / "source"
    source.write_bytes(b"content")
    sent = base64.b64encode(bytes(range(32))).decode()
    with recorded() as (url, heads):
        options = {"endpoint_url": url, "access_key_id": "k", "secret_access_key": "s", "region": "us-east-1"}
        firstbyte.cp(source, "s3://bucket/k", sse_c_key=key, **options)
        with firstbyte.open("s3://bucket/k", cache=False, sse_c_key=str(key), **options) as file:
            file.read()
        named = [head for _, head in heads if head.get("x-amz-server-side-encryption-customer-key") == sent]
        assert {"PUT"} <= {method for method, _ in heads} and named == [head for _, head in heads]
        wrong = tmp_path / "missing"
        with pytest.raises(ValueError, match="sse_c_key: .*missing"):
            firstbyte.cp(source, "s3://bucket/k", sse_c_key=wrong, **options)
        with pytest.raises(ValueError, match="sse_c_key: .*source: no key"):
            firstbyte.open("s3://bucket/k", cache=False, sse_c_key=source, **options).read()
        # A key file that is not needed is not read.
        firstbyte.cp(source, tmp_path / "copy", sse_c_key=wrong)
        assert list(firstbyte.ls(tmp_path, sse_c_key=wrong))


@pytest.mark.parametrize("name", ["SSE_C_KEY", "VIA_KEY", "VIA", "CA_BUNDLE"])
def test_a_variable_with_a_bad_file_stops_no_local_calls(name, tmp_path, monkeypatch):
    monkeypatch.setenv(f"FIRSTBYTE_{name}", "@/nowhere" if name == "VIA" else "/nowhere")
    (tmp_path / "source").write_bytes(b"content")
    firstbyte.cp(tmp_path / "source", tmp_path / "copy")
    firstbyte.sync(tmp_path, tmp_path.with_name("synced"))
    assert sorted(row.name for row in firstbyte.ls(tmp_path)) == ["copy", "source"]
    with firstbyte.open(tmp_path / "copy") as file:
        assert file.read() == b"content"
    if name != "CA_BUNDLE":
        if name == "VIA_KEY":
            monkeypatch.setenv("FIRSTBYTE_VIA", "http://127.0.0.1:9")
        options = {"endpoint_url": "http://127.0.0.1:9", "anonymous": True}
        with pytest.raises(ValueError, match=f"FIRSTBYTE_{name}: .*/nowhere"):
            firstbyte.cp("s3://bucket/k", tmp_path / "other", **options)


def test_options_of_writes_are_refused_where_nothing_is_written():
    with pytest.raises(TypeError, match="content_type"):
        firstbyte.stat("s3://bucket/x", content_type="text/plain")
    with pytest.raises(ValueError, match="concurrency"):
        firstbyte.cp("s3://bucket/x", "y", concurrency=0)
