"""Failures in Python: class, kind, status and request id.

The table is tests/failures.json, which the tests of the program read too.
"""

import builtins
import errno
import json
import pickle
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from serving import ROOT

import firstbyte
from firstbyte import _errors

CASES = json.loads((ROOT / "tests" / "failures.json").read_text())


class Scripted:
    """A server that answers each request as its case says."""

    def __init__(self, case):
        self.case, self.socket = case, socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.open = []

    def __enter__(self):
        if self.case.get("refused"):
            self.socket.close()
        else:
            threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        for connection in [self.socket, *self.open]:
            connection.close()

    def accept(self):
        while True:
            try:
                connection = self.socket.accept()[0]
            except OSError:
                return
            self.open.append(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection:
            try:
                while self.answer(connection):
                    pass
            except OSError:
                return

    def answer(self, connection) -> bool:
        head = b""
        while b"\r\n\r\n" not in head:
            piece = connection.recv(65536)
            if not piece:
                return False
            head += piece
        case = self.case
        if case.get("silent"):
            # Waits until the client disconnects.
            connection.recv(1)
            return False
        if case.get("hang"):
            return False
        if "raw" in case:
            connection.sendall(case["raw"].encode())
            return False
        is_head = head.startswith(b"HEAD")
        if is_head and case["store"] == "s3":
            connection.sendall(b'HTTP/1.1 200 OK\r\ncontent-length: 9\r\netag: "x"\r\n\r\n')
            return True
        body = "" if is_head else case["body"]
        lines = [f"HTTP/1.1 {case['status_line']}", *(f"{name}: {value}" for name, value in case["headers"].items())]
        if not case.get("close"):
            lines.append(f"content-length: {len(body)}")
        connection.sendall("\r\n".join([*lines, "", body]).encode())
        return not case.get("close")


@pytest.fixture(scope="module")
def failures(tmp_path_factory):
    """Returns the exception of each case. All cases run at the same time, because they mostly wait
    between attempts.
    """
    out = tmp_path_factory.mktemp("out")

    def attempt(number, case):
        with Scripted(case) as server:
            options = {"region": "us-east-1", "access_key_id": "key", "secret_access_key": "secret"}
            location = "s3://bucket/key"
            if case["store"] == "http":
                options, location = {}, f"{server.url}/file"
            else:
                options["endpoint_url"] = server.url
            try:
                firstbyte.cp(location, out / str(number), **options)
            except Exception as error:
                return error
            raise AssertionError(f"{case['name']}: nothing failed")

    chosen = [case for case in CASES if case["store"] in ("s3", "http") and not case.get("silent")]
    with ThreadPoolExecutor(len(chosen)) as pool:
        errors = list(pool.map(attempt, range(len(chosen)), chosen))
    return list(zip(chosen, errors, strict=True))


def test_class_kind_status_and_request_id_are_those_of_the_table(failures):
    assert len(failures) >= 28
    for case, error in failures:
        name = case["name"]
        assert type(error).__name__ == case["python"], f"{name}: {error!r}"
        assert isinstance(error, firstbyte.FirstbyteError), name
        assert isinstance(error, getattr(builtins, case["builtin"])), name
        found = {field: getattr(error, field) for field in ("kind", "status", "request_id", "host_id")}
        assert found == {field: case[field] for field in found}, f"{name}: {error!r}"
        assert error.attempts >= 1 and error.seconds > 0, name


def test_no_text_names_an_option_of_the_command_line(failures):
    for case, error in failures:
        assert "--" not in str(error) and "`firstbyte" not in str(error), f"{case['name']}: {error}"


def test_a_refused_connection_has_its_number(failures):
    error = next(error for case, error in failures if case.get("refused"))
    assert error.errno == errno.ECONNREFUSED
    assert isinstance(error, ConnectionRefusedError) and isinstance(error, firstbyte.UnreachableError)


def test_failures_are_the_same_after_a_journey_to_another_process(failures):
    for case, error in failures:
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is type(error) and str(copy) == str(error), case["name"]
        assert (copy.kind, copy.status, copy.request_id) == (error.kind, error.status, error.request_id)


def test_the_receipt_of_a_tree_has_kind_and_request_id_of_each(tmp_path):
    case = next(case for case in CASES if case["name"] == "no right")
    listing = (
        "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>tree/a</Key><Size>9</Size>"
        '<ETag>"x"</ETag><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents></ListBucketResult>'
    )

    class Tree(Scripted):
        def answer(self, connection):
            head = connection.recv(65536)
            if not head:
                return False
            if b"list-type" in head:
                connection.sendall(f"HTTP/1.1 200 OK\r\ncontent-length: {len(listing)}\r\n\r\n{listing}".encode())
                return True
            headers = "".join(f"{name}: {value}\r\n" for name, value in case["headers"].items())
            body = "" if head.startswith(b"HEAD") else case["body"]
            connection.sendall(f"HTTP/1.1 {case['status_line']}\r\n{headers}content-length: {len(body)}\r\n\r\n{body}".encode())
            return True

    with Tree(case) as server:
        options = {"endpoint_url": server.url, "region": "us-east-1", "access_key_id": "k", "secret_access_key": "s"}
        with pytest.raises(OSError) as caught:
            firstbyte.cp("s3://bucket/tree/", tmp_path / "out", recursive=True, **options)
    receipt = getattr(caught.value, "receipt", None)
    failed = receipt["failed"][0] if receipt else vars(caught.value)
    assert (failed["kind"], failed["status"], failed["request_id"]) == ("denied", 403, case["request_id"])


def test_every_kind_has_a_class_that_is_exported_and_documented():
    page = (ROOT / "docs" / "errors.md").read_text()
    kinds = set(_errors.BY_KIND)
    documented = {line.split("`")[1] for line in page.splitlines() if line.startswith("| `") and "Error`" in line}
    assert kinds == documented
    for cls in _errors.CLASSES:
        assert cls.__name__ in firstbyte.__all__ and f"`{cls.__name__}`" in page
