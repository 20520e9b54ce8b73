"""A web server with one object, for tests of the requested ranges and their times."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Web(ThreadingHTTPServer):
    """Records the requested ranges, and answers once `go` is set. `go` is set from the start unless
    `held` is true.
    """

    def __init__(self, content: bytes, held: bool = False):
        super().__init__(("127.0.0.1", 0), Answer)
        self.content, self.ranges = content, []
        self.go, self.asked = threading.Event(), threading.Event()
        if not held:
            self.go.set()
        self.url = f"http://127.0.0.1:{self.server_port}/object.parquet"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.go.set()
        self.shutdown()
        self.server_close()

    def taken(self) -> list[tuple[int, int]]:
        """Returns the ranges that were requested since the last call, sorted."""
        ranges, self.ranges = sorted(self.ranges), []
        return ranges


class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self.answer(200, self.server.content, body=False)

    def do_GET(self):
        content = self.server.content
        wanted = self.headers["range"]
        first, last = wanted.removeprefix("bytes=").split("-") if wanted else (0, len(content))
        first, last = int(first), min(int(last), len(content) - 1)
        self.server.ranges.append((first, last + 1))
        self.server.asked.set()
        self.server.go.wait()
        if wanted:
            self.answer(206, content[first : last + 1], f"bytes {first}-{last}/{len(content)}")
        else:
            self.answer(200, content)

    def answer(self, status, content, content_range=None, body=True):
        self.send_response(status)
        self.send_header("etag", '"one"')
        self.send_header("accept-ranges", "bytes")
        self.send_header("content-length", str(len(content)))
        if content_range:
            self.send_header("content-range", content_range)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *_):
        pass
