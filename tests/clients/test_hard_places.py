"""`serve` with scarce resources: few descriptors, directories of other users, other file systems, a
full disk."""

import http.client
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import pytest
from serving import serving
from waiting import until

S3 = {"x-amz-date": "20260101T000000Z"}


def ask(served, method: str, target: str, body: bytes | None = None, headers: dict | None = None):
    """Sends one request on a new connection. Returns the status and the body of the answer."""
    connection = http.client.HTTPConnection(*served.url.removeprefix("http://").split(":"))
    connection.request(method, target, body, headers or {})
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def with_few_descriptors():
    """Limits the server's process to 64 descriptors. It is not allowed to raise the limit."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


def test_idle_connections_leave_descriptors_for_the_others(tmp_path):
    (tmp_path / "bucket").mkdir()
    with serving(tmp_path, before=with_few_descriptors) as served:
        host, port = served.url.removeprefix("http://").split(":")
        idle = []
        for number in range(100):
            idle.append(socket.create_connection((host, int(port))))
            if number % 10 == 0:
                assert ask(served, "PUT", f"/bucket/{number}", b"x", S3) == (200, b"")
        for _ in range(20):
            assert ask(served, "GET", "/bucket/0") == (200, b"x")
            assert ask(served, "GET", "/bucket?list-type=2")[0] == 200
        for connection in idle:
            connection.close()


def test_a_deep_list_needs_few_descriptors(tmp_path):
    deep = tmp_path / "bucket"
    for _ in range(200):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (deep / "last").write_text("x")
    # Each directory also has a file that sorts after its subdirectory, so that the walk returns to
    # all of them.
    for above in [deep, *deep.parents][:201]:
        (above / "e").write_text("x")
    with serving(tmp_path, before=with_few_descriptors) as served:
        status, listed = ask(served, "GET", "/bucket?list-type=2")
        assert (status, listed.count(b"<Key>")) == (200, 202)
        status, listed = ask(served, "GET", "/bucket/?recursive&format=ndjson")
        assert (status, listed.count(b'"kind":"file"')) == (200, 202)


@pytest.mark.needs_root
def test_a_directory_that_may_not_be_read_is_left_out_of_lists_and_archives_and_logged(tmp_path):
    # `tmp_path` cannot be used, because other users may not enter its parents.
    root = Path(tempfile.mkdtemp(prefix="firstbyte-", dir="/tmp"))
    root.chmod(0o755)
    log = tmp_path / "log"
    try:
        for name in ["a", "lost+found", "z"]:
            (root / "bucket" / name).mkdir(parents=True)
            (root / "bucket" / name / "f").write_text(name)
        (root / "bucket" / "private").write_text("private")
        (root / "bucket" / "lost+found").chmod(0o700)
        (root / "bucket" / "private").chmod(0o600)

        def as_another_user():
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)

        with serving(root, log=log, write=False, before=as_another_user) as served:
            status, listed = ask(served, "GET", "/bucket/?recursive&format=ndjson")
            names = [json.loads(line)["name"] for line in listed.splitlines()]
            assert (status, sorted(names)) == (200, ["a", "a/f", "lost+found", "private", "z", "z/f"])
            status, listed = ask(served, "GET", "/bucket?list-type=2")
            keys = [part.split(b"<")[0] for part in listed.split(b"<Key>")[1:]]
            assert (status, keys) == (200, [b"a/f", b"private", b"z/f"])
            status, archive = ask(served, "GET", "/bucket/?archive=tar")
            with tarfile.open(fileobj=BytesIO(archive)) as tar:
                assert sorted(tar.getnames()) == ["bucket", "bucket/a", "bucket/a/f", "bucket/z", "bucket/z/f"]
            # Directories that cannot be read are refused if they are requested by name.
            assert ask(served, "GET", "/bucket/lost+found/?archive=tar")[0] == 403
            assert ask(served, "GET", "/bucket/?archive=tar&name=private")[0] == 403
            assert ask(served, "GET", "/bucket/lost+found/?recursive")[0] == 403
        assert "lost+found" in log.read_text()
    finally:
        shutil.rmtree(root)


@contextmanager
def mounted(place: Path, size: str):
    """Mounts a tmpfs of this size at `place`."""
    place.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def begin(served, key: str) -> str:
    """Begins an upload in parts, and returns its id."""
    answer = ask(served, "POST", f"/bucket/{key}?uploads", headers=S3)[1]
    return answer.split(b"<UploadId>")[1].split(b"<")[0].decode()


@pytest.mark.needs_root
def test_a_publication_across_file_systems_that_is_killed_leaves_nothing(tmp_path):
    """Takes over two seconds: 256 MiB are copied, so that the kill comes before the end."""
    other = tmp_path / "root" / "bucket" / "other"
    with mounted(other, "400m"):
        with serving(tmp_path / "root", status=-signal.SIGKILL) as served:
            sending = subprocess.Popen(
                ["curl", "-s", "-X", "PUT", "-H", "x-amz-date: x", "-T", "-", f"{served.url}/bucket/other/big"],
                stdin=subprocess.PIPE,
            )
            for _ in range(256):
                sending.stdin.write(bytes(1 << 20))
            sending.stdin.close()

            def parts() -> list[str]:
                return [name for name in os.listdir(other) if name.endswith(".firstbyte-part")]

            until("the copy begins", parts)
            os.kill(served.pid, signal.SIGKILL)
            sending.wait()
        assert parts(), "the kill came too late"
        with serving(tmp_path / "root"):
            until("the part is removed", lambda: os.listdir(other) == [])


@pytest.mark.needs_root
def test_a_full_disk_gives_back_what_a_failed_completion_wrote(tmp_path):
    with mounted(tmp_path / "root" / "bucket", "16m") as bucket, serving(tmp_path / "root") as served:
        # The parts have two lengths, the shorter one first, so that the server has to assemble the
        # object.
        parts = [bytes(5 << 20), bytes(5 << 20) + b"x", b"end"]
        upload = begin(served, "whole")
        for number, part in enumerate(parts, 1):
            ask(served, "PUT", f"/bucket/whole?partNumber={number}&uploadId={upload}", part, S3)

        def free() -> int:
            found = os.statvfs(bucket)
            return found.f_bavail * found.f_frsize

        before = free()
        listed = ask(served, "GET", f"/bucket/whole?uploadId={upload}", headers=S3)[1].decode()
        tags = [part.split("</ETag>")[0] for part in listed.split("<ETag>")[1:]]
        xml = "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{t}</ETag></Part>" for n, t in enumerate(tags, 1))
        xml = f"<CompleteMultipartUpload>{xml}</CompleteMultipartUpload>".encode()
        status, answer = ask(served, "POST", f"/bucket/whole?uploadId={upload}", xml, S3)
        assert status != 200 or b"<Error>" in answer, answer
        assert b"InsufficientStorage" in answer, answer
        assert abs(free() - before) < 1 << 20
        # When the disk has more room, the same request completes the upload.
        subprocess.run(["mount", "-o", "remount,size=64m", bucket], check=True)
        status, answer = ask(served, "POST", f"/bucket/whole?uploadId={upload}", xml, S3)
        assert status == 200 and b"<Error>" not in answer, answer
        assert (bucket / "whole").read_bytes() == b"".join(parts)


@pytest.mark.needs_root
def test_the_page_deletes_on_a_full_disk(tmp_path):
    with mounted(tmp_path / "root" / "bucket", "1m") as bucket, serving(tmp_path / "root") as served:
        with pytest.raises(OSError), (bucket / "full").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        page = {"x-firstbyte-page": "1"}
        target = "/.firstbyte/changes/{}?path=/bucket/"
        status, answer = ask(served, "POST", target.format("delete"), b'{"entries":["full"]}', page)
        done = json.loads(answer)["done"]
        assert status == 200 and len(done) == 1, answer
        assert not (bucket / "full").exists()
        ids = json.dumps({"ids": [done[0]["id"]]}).encode()
        assert len(json.loads(ask(served, "POST", target.format("restore"), ids, page)[1])["done"]) == 1
        assert (bucket / "full").exists()


@pytest.mark.needs_root
def test_the_page_deletes_for_ever_where_a_full_disk_has_no_room_for_the_trash(tmp_path):
    """A new directory takes a block on ext4, and this disk has no block left."""
    image, bucket = tmp_path / "image", tmp_path / "root" / "bucket"
    bucket.mkdir(parents=True)
    image.write_bytes(bytes(8 << 20))
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, bucket], check=True)
    try:
        (bucket / "folder").mkdir()
        (bucket / "folder" / "f").write_text("x")
        with pytest.raises(OSError), (bucket / "full").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1024))
        with serving(tmp_path / "root") as served:
            page, target = {"x-firstbyte-page": "1"}, "/.firstbyte/changes/delete?path=/bucket/"
            answer = json.loads(ask(served, "POST", target, b'{"entries":["folder","full"]}', page)[1])
            assert [one["error"] for one in answer["failed"]] == ["space", "space"], answer
            assert (bucket / "folder" / "f").exists() and (bucket / "full").exists()
            body = b'{"entries":["folder","full"],"forever":true}'
            answer = json.loads(ask(served, "POST", target, body, page)[1])
            assert [one["entry"] for one in answer["done"]] == ["folder", "full"], answer
            assert sorted(os.listdir(bucket)) == ["lost+found"]
    finally:
        subprocess.run(["umount", "-l", bucket], check=True)
