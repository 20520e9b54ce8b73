"""An S3 server with one bucket of arbitrary keys, including keys that no file system can hold."""

import re
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.sax.saxutils import escape, unescape


class Keys(ThreadingHTTPServer):
    """Holds the objects `objects` of the bucket `bucket`, by key."""

    def __init__(self, objects: dict[str, bytes]):
        super().__init__(("127.0.0.1", 0), Answer)
        self.objects = dict(objects)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.options = {
            "endpoint_url": self.url, "region": "us-east-1", "access_key_id": "any", "secret_access_key": "secret",
        }  # fmt: skip

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path, _, query = self.path.partition("?")
        key = urllib.parse.unquote(path).removeprefix("/bucket").removeprefix("/")
        if not key:
            self.answer(200, self.listing(dict(urllib.parse.parse_qsl(query, keep_blank_values=True))))
        elif key in self.server.objects:
            self.answer(200, self.server.objects[key])
        else:
            self.answer(404, b"<Error><Code>NoSuchKey</Code><Message>none</Message></Error>")

    do_HEAD = do_GET

    def do_DELETE(self):
        self.server.objects.pop(urllib.parse.unquote(self.path).removeprefix("/bucket/"), None)
        self.answer(204, b"")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        for key in re.findall("<Key>(.*?)</Key>", body):
            self.server.objects.pop(unescape(key), None)
        self.answer(200, b"<DeleteResult></DeleteResult>")

    def do_PUT(self):
        source = self.headers["x-amz-copy-source"]
        content = self.server.objects[urllib.parse.unquote(source).removeprefix("/").removeprefix("bucket/")]
        self.server.objects[urllib.parse.unquote(self.path).removeprefix("/bucket/")] = content
        self.answer(200, b'<CopyObjectResult><ETag>"%x"</ETag></CopyObjectResult>' % hash(content))

    def listing(self, query: dict[str, str]) -> bytes:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        keys, prefixes = [], []
        for key in sorted(self.server.objects):
            rest = key.removeprefix(prefix)
            if not key.startswith(prefix) or key <= query.get("start-after", ""):
                continue
            if delimiter and delimiter in rest:
                prefixes.append(prefix + rest.partition(delimiter)[0] + delimiter)
            else:
                keys.append(key)
        shown = urllib.parse.quote if query.get("encoding-type") == "url" else escape
        rows = [
            f"<Contents><Key>{shown(key)}</Key><LastModified>2026-11-28T00:00:00.000Z</LastModified>"
            f'<ETag>"{hash(self.server.objects[key]):x}"</ETag><Size>{len(self.server.objects[key])}</Size></Contents>'
            for key in keys
        ]
        rows += [f"<CommonPrefixes><Prefix>{shown(name)}</Prefix></CommonPrefixes>" for name in dict.fromkeys(prefixes)]
        encoding = "<EncodingType>url</EncodingType>" if shown is urllib.parse.quote else ""
        head = f"<Name>bucket</Name><IsTruncated>false</IsTruncated>{encoding}"
        return f"<ListBucketResult>{head}{''.join(rows)}</ListBucketResult>".encode()

    def answer(self, status, content):
        self.send_response(status)
        self.send_header("etag", f'"{hash(content):x}"')
        self.send_header("last-modified", "Sat, 28 Nov 2026 00:00:00 GMT")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD" and status != 204:
            self.wfile.write(content)

    def log_message(self, *_):
        pass
