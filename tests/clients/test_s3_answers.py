"""Answers that S3 clients rely on: metadata kept or refused, conditions, checksums, parts, and
names of buckets.
"""

import datetime
import hashlib
import hmac
import http.client
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError
from conftest import client, code, random_bytes
from serving import AWS
from waiting import WAIT_LIMIT

PART = 5 << 20


def test_user_metadata_up_to_two_kilobytes_is_kept_with_type_and_checksums(s3):
    metadata = {f"key{number}": "v" * 200 for number in range(9)}
    s3.put_object(Bucket="data", Key="rich", Body=b"rich", Metadata=metadata, ContentType="text/x-rich")
    head = s3.head_object(Bucket="data", Key="rich", ChecksumMode="ENABLED")
    assert head["Metadata"] == metadata and head["ContentType"] == "text/x-rich"
    assert head["ChecksumCRC64NVME"]
    s3.copy_object(Bucket="data", Key="rich-copy", CopySource="data/rich")
    copied = s3.head_object(Bucket="data", Key="rich-copy", ChecksumMode="ENABLED")
    assert copied["Metadata"] == metadata and copied["ChecksumCRC64NVME"] == head["ChecksumCRC64NVME"]


def test_more_user_metadata_is_refused_and_the_object_stays_as_it_was(s3):
    s3.put_object(Bucket="data", Key="kept", Body=b"old", ContentType="text/x-old")
    much = {"a": "v" * 1500, "b": "v" * 1500}
    upload = {"Bucket": "data", "Key": "kept", "Metadata": much}
    for write in (
        lambda: s3.put_object(Body=b"new", **upload),
        lambda: s3.create_multipart_upload(**upload),
        lambda: s3.copy_object(CopySource="data/kept", MetadataDirective="REPLACE", **upload),
    ):
        with pytest.raises(ClientError) as error:
            write()
        assert code(error) == "MetadataTooLarge"
    read = s3.get_object(Bucket="data", Key="kept")
    assert read["Body"].read() == b"old" and read["ContentType"] == "text/x-old"


def test_user_metadata_in_other_alphabets_comes_back_as_it_was(s3):
    value = "=?UTF-8?B?Z3LDvG4=?="
    s3.put_object(Bucket="data", Key="alphabet", Body=b"x", Metadata={"colour": value})
    assert s3.head_object(Bucket="data", Key="alphabet")["Metadata"] == {"colour": value}


def test_user_metadata_sent_as_utf_8_is_not_dropped(served):
    connection = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=WAIT_LIMIT)
    connection.putrequest("PUT", "/data/utf-8?x-id=PutObject")
    connection.putheader("x-amz-meta-colour", "grün".encode())
    connection.putheader("content-length", "0")
    connection.endheaders()
    assert connection.getresponse().status == 200
    assert client(served).head_object(Bucket="data", Key="utf-8")["Metadata"] == {"colour": "=?UTF-8?B?Z3LDvG4=?="}


def test_expires_and_the_like_are_kept(s3):
    expires = datetime.datetime(2037, 10, 21, 7, 28, tzinfo=datetime.timezone.utc)
    s3.put_object(Bucket="data", Key="expires", Body=b"x", Expires=expires, CacheControl="max-age=5")
    head = s3.head_object(Bucket="data", Key="expires")
    assert head["ExpiresString"] == "Wed, 21 Oct 2037 07:28:00 GMT" and head["CacheControl"] == "max-age=5"
    assert s3.get_object(Bucket="data", Key="expires")["ExpiresString"] == "Wed, 21 Oct 2037 07:28:00 GMT"


def test_what_is_not_done_is_refused_instead_of_ignored(s3):
    with pytest.raises(ClientError) as error:
        s3.put_object(Bucket="data", Key="tagged", Body=b"x", Tagging="colour=green")
    assert code(error) == "NotImplemented"
    with pytest.raises(ClientError):
        s3.head_object(Bucket="data", Key="tagged")


def test_not_modified_carries_the_entity_tag(s3):
    s3.put_object(Bucket="data", Key="same", Body=b"same", CacheControl="max-age=7")
    tag = s3.head_object(Bucket="data", Key="same")["ETag"]
    for read in (s3.get_object, s3.head_object):
        with pytest.raises(ClientError) as error:
            read(Bucket="data", Key="same", IfNoneMatch=tag)
        headers = error.value.response["ResponseMetadata"]["HTTPHeaders"]
        assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 304
        assert headers["etag"] == tag and headers["cache-control"] == "max-age=7" and "last-modified" in headers


def test_checksums_are_sent_only_on_request(served):
    # By default, botocore requests checksums with every read.
    s3 = client(served, response_checksum_validation="when_required")
    s3.put_object(Bucket="data", Key="summed", Body=b"summed", ChecksumAlgorithm="SHA256")
    for read in (s3.get_object, s3.head_object):
        plain = read(Bucket="data", Key="summed")
        assert not [name for name in plain if name.startswith("Checksum")], plain
        asked = read(Bucket="data", Key="summed", ChecksumMode="ENABLED")
        assert asked["ChecksumSHA256"] and asked["ChecksumType"] == "FULL_OBJECT"


def test_a_far_modification_time_harms_no_listing(s3):
    s3.put_object(Bucket="data", Key="far/future", Body=b"far", Metadata={"mtime": "300000000000"})
    assert s3.get_object(Bucket="data", Key="far/future")["Body"].read() == b"far"
    assert [row["Key"] for row in s3.list_objects_v2(Bucket="data", Prefix="far/")["Contents"]] == ["far/future"]


def test_an_upload_without_a_length_is_taken(served):
    connection = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=WAIT_LIMIT)
    connection.request("PUT", "/data/chunked?x-id=PutObject", body=iter([b"abc", b"def"]))
    assert connection.getresponse().status == 200
    assert client(served).get_object(Bucket="data", Key="chunked")["Body"].read() == b"abcdef"


def test_a_presigned_upload_without_a_length_is_taken(s3):
    url = urlsplit(s3.generate_presigned_url("put_object", Params={"Bucket": "data", "Key": "unsized"}, ExpiresIn=60))
    connection = http.client.HTTPConnection(url.netloc, timeout=WAIT_LIMIT)
    connection.request("PUT", f"{url.path}?{url.query}", body=iter([b"abc", b"def"]))
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    assert s3.get_object(Bucket="data", Key="unsized")["Body"].read() == b"abcdef"


def sign(key: bytes, *words: str) -> bytes:
    for word in words:
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    return key


class Signed:
    """The headers of a signed PUT, and the last signature. The signature of the next chunk is
    computed from the last one.
    """

    def __init__(self, served, path: str, payload: str, **headers: str):
        url = urlsplit(served.url)
        self.when = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        self.scope = f"{self.when[:8]}/us-east-1/s3/aws4_request"
        self.key = sign(f"AWS4{AWS['AWS_SECRET_ACCESS_KEY']}".encode(), self.when[:8], "us-east-1", "s3", "aws4_request")
        self.headers = {"host": url.netloc, "x-amz-content-sha256": payload, "x-amz-date": self.when, **headers}
        lines = "".join(f"{name}:{value}\n" for name, value in self.headers.items())
        names = ";".join(self.headers)
        request = f"PUT\n{url.path}{path}\n\n{lines}\n{names}\n{payload}"
        digest = hashlib.sha256(request.encode()).hexdigest()
        self.last = sign(self.key, f"AWS4-HMAC-SHA256\n{self.when}\n{self.scope}\n{digest}").hex()
        credential = f"Credential={AWS['AWS_ACCESS_KEY_ID']}/{self.scope}"
        self.headers["authorization"] = f"AWS4-HMAC-SHA256 {credential},SignedHeaders={names},Signature={self.last}"
        self.target = f"{url.path}{path}"
        self.connection = http.client.HTTPConnection(url.netloc, timeout=WAIT_LIMIT)

    def chunk(self, data: bytes) -> bytes:
        empty, own = hashlib.sha256(b"").hexdigest(), hashlib.sha256(data).hexdigest()
        text = f"AWS4-HMAC-SHA256-PAYLOAD\n{self.when}\n{self.scope}\n{self.last}\n{empty}\n{own}"
        self.last = sign(self.key, text).hex()
        return f"{len(data):x};chunk-signature={self.last}\r\n".encode() + data + b"\r\n"

    def send(self, body) -> http.client.HTTPResponse:
        self.connection.request("PUT", self.target, body=body, headers=self.headers)
        return self.connection.getresponse()


def send_signed_stream(served, path: str, chunks: list[bytes], last: bool) -> http.client.HTTPResponse:
    """Sends a PUT in which each chunk is signed, with or without the empty last chunk."""
    length = {"x-amz-decoded-content-length": str(sum(map(len, chunks)))}
    signed = Signed(served, path, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", **length)
    return signed.send(b"".join(signed.chunk(chunk) for chunk in ([*chunks, b""] if last else chunks)))


@pytest.mark.parametrize("server", ["served", "served_below"])
def test_an_unsigned_payload_without_a_length_is_taken(server, request):
    served = request.getfixturevalue(server)
    answer = Signed(served, "/data/any-length", "UNSIGNED-PAYLOAD").send(iter([b"abc", b"def"]))
    assert answer.status == 200, answer.read()
    assert client(served).get_object(Bucket="data", Key="any-length")["Body"].read() == b"abcdef"


@pytest.mark.parametrize("server", ["served", "served_below"])
def test_a_signed_stream_without_its_last_chunk_is_refused(server, request):
    served = request.getfixturevalue(server)
    chunks = [random_bytes(1, 70_000), random_bytes(2, 100)]
    whole = send_signed_stream(served, "/data/stream", chunks, last=True)
    assert whole.status == 200, whole.read()
    assert client(served).get_object(Bucket="data", Key="stream")["Body"].read() == b"".join(chunks)
    cut = send_signed_stream(served, "/data/cut", chunks, last=False)
    assert (cut.status, b"IncompleteBody" in cut.read()) == (400, True)
    with pytest.raises(ClientError):
        client(served).head_object(Bucket="data", Key="cut")


def test_a_key_that_ends_in_a_slash_is_a_directory_without_bytes(s3):
    s3.put_object(Bucket="data", Key="folder/", Body=b"")
    assert s3.head_object(Bucket="data", Key="folder/")["ContentLength"] == 0
    assert "folder/" in [row["Key"] for row in s3.list_objects_v2(Bucket="data", Prefix="folder")["Contents"]]
    s3.copy_object(Bucket="data", Key="folder-copy/", CopySource="data/folder/")
    assert s3.head_object(Bucket="data", Key="folder-copy/")["ContentLength"] == 0
    for write in (
        lambda: s3.put_object(Bucket="data", Key="folder/", Body=b"bytes"),
        lambda: s3.copy_object(Bucket="data", Key="folder-copy/", CopySource="data/small-01"),
    ):
        with pytest.raises(ClientError) as error:
            write()
        assert code(error) == "InvalidArgument"
    s3.delete_object(Bucket="data", Key="folder/")
    s3.delete_object(Bucket="data", Key="folder-copy/")


def test_objects_are_copied_from_every_bucket_that_is_served(s3):
    s3.create_bucket(Bucket="copies")
    s3.copy_object(Bucket="copies", Key="there", CopySource={"Bucket": "data", "Key": "small-03"})
    s3.copy_object(Bucket="data", Key="copied-back", CopySource={"Bucket": "copies", "Key": "there"})
    assert s3.get_object(Bucket="data", Key="copied-back")["Body"].read() == random_bytes(3, 1003)
    with pytest.raises(ClientError) as error:
        s3.copy_object(Bucket="copies", Key="there", CopySource={"Bucket": "absent", "Key": "small-03"})
    assert code(error) == "NoSuchBucket"
    s3.delete_object(Bucket="copies", Key="there")
    s3.delete_bucket(Bucket="copies")


@pytest.mark.parametrize("name", ["Upper", "under_score", "ab", "-hyphen", "hyphen-", "a..b", "abc.-d", "abc-.d", "192.168.5.4", "xn--x"])
def test_a_bucket_whose_name_s3_refuses_is_not_made(s3, served, name):
    # Botocore itself refuses some of these names, so its check is removed.
    s3.meta.events.unregister("before-parameter-build.s3", None)
    handlers = s3.meta.events
    from botocore.handlers import validate_bucket_name

    handlers.unregister("before-parameter-build.s3", validate_bucket_name)
    with pytest.raises(ClientError) as error:
        s3.create_bucket(Bucket=name)
    assert code(error) == "InvalidBucketName"
    assert not (served.root / name).exists()


def test_deleting_more_than_a_thousand_keys_at_once_is_refused(s3):
    s3.put_object(Bucket="data", Key="many-0", Body=b"x")
    objects = [{"Key": f"many-{number}"} for number in range(1001)]
    with pytest.raises(ClientError) as error:
        s3.delete_objects(Bucket="data", Delete={"Objects": objects})
    assert code(error) == "MalformedXML"
    s3.head_object(Bucket="data", Key="many-0")
    s3.delete_objects(Bucket="data", Delete={"Objects": objects[:1000], "Quiet": True})


def test_every_object_is_its_only_version(s3):
    for number in range(5):
        s3.put_object(Bucket="data", Key=f"versions/{number}", Body=b"x")
    s3.put_object(Bucket="data", Key="versions/below/x", Body=b"x")
    pages = s3.get_paginator("list_object_versions").paginate(
        Bucket="data", Prefix="versions/", PaginationConfig={"PageSize": 2}
    )
    rows = [row for page in pages for row in page.get("Versions", [])]
    assert [row["Key"] for row in rows] == [f"versions/{number}" for number in range(5)] + ["versions/below/x"]
    assert all(row["VersionId"] == "null" and row["IsLatest"] for row in rows)
    top = s3.list_object_versions(Bucket="data", Prefix="versions/", Delimiter="/")
    assert [row["Prefix"] for row in top["CommonPrefixes"]] == ["versions/below/"]
    assert s3.get_object(Bucket="data", Key="versions/1", VersionId="null")["Body"].read() == b"x"
    for use in (s3.get_object, s3.head_object, s3.delete_object):
        with pytest.raises(ClientError) as error:
            use(Bucket="data", Key="versions/1", VersionId="3sL4kqtJlcpXroDTDmJ")
        assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404
    s3.delete_object(Bucket="data", Key="versions/1", VersionId="null")
    with pytest.raises(ClientError):
        s3.head_object(Bucket="data", Key="versions/1")


def upload_by_parts(s3, key: str, bodies: list[bytes]) -> str:
    upload = {"Bucket": "data", "Key": key}
    upload["UploadId"] = s3.create_multipart_upload(Bucket="data", Key=key, Metadata={"a": "b"})["UploadId"]
    parts = [
        {"PartNumber": number, "ETag": s3.upload_part(**upload, PartNumber=number, Body=body)["ETag"]}
        for number, body in enumerate(bodies, 1)
    ]
    return s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})["ETag"]


def test_parts_are_read_one_by_one_where_they_met(s3):
    bodies = [random_bytes(31, PART), random_bytes(32, PART), random_bytes(33, 1000)]
    upload_by_parts(s3, "in-parts", bodies)
    for number, body in enumerate(bodies, 1):
        part = s3.get_object(Bucket="data", Key="in-parts", PartNumber=number)
        assert part["PartsCount"] == 3 and part["Body"].read() == body
        assert s3.head_object(Bucket="data", Key="in-parts", PartNumber=number)["ContentLength"] == len(body)
    assert "PartsCount" not in s3.head_object(Bucket="data", Key="in-parts")
    with pytest.raises(ClientError) as error:
        s3.get_object(Bucket="data", Key="in-parts", PartNumber=4)
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 416
    # A copy has one part, whatever its source has.
    s3.copy_object(Bucket="data", Key="in-one", CopySource="data/in-parts")
    assert "PartsCount" not in s3.head_object(Bucket="data", Key="in-one", PartNumber=1)


def test_attributes_are_those_that_are_asked_for(s3):
    bodies = [random_bytes(34, PART), random_bytes(35, 10)]
    etag = upload_by_parts(s3, "attributes", bodies)
    asked = ["ETag", "Checksum", "ObjectParts", "ObjectSize", "StorageClass"]
    found = s3.get_object_attributes(Bucket="data", Key="attributes", ObjectAttributes=asked)
    # S3 writes the ETag without quotes in this answer, and only in this one.
    assert found["ETag"] == etag.strip('"') and found["ObjectSize"] == PART + 10
    assert found["Checksum"]["ChecksumCRC64NVME"] and found["StorageClass"] == "STANDARD"
    assert found["ObjectParts"]["TotalPartsCount"] == 2
    assert [part["Size"] for part in found["ObjectParts"]["Parts"]] == [PART, 10]
    page = s3.get_object_attributes(
        Bucket="data", Key="attributes", ObjectAttributes=["ObjectParts"], MaxParts=1, PartNumberMarker=1
    )
    assert [part["PartNumber"] for part in page["ObjectParts"]["Parts"]] == [2]
    assert "ETag" not in page and "ObjectSize" not in page
    with pytest.raises(ClientError) as error:
        s3.get_object_attributes(Bucket="data", Key="absent", ObjectAttributes=["ETag"])
    assert code(error) == "NoSuchKey"


def test_a_write_to_a_sub_resource_that_is_not_known_harms_nothing(served):
    s3 = client(served)
    s3.put_object(Bucket="data", Key="renamed", Body=b"content")
    s3.create_bucket(Bucket="unharmed")
    connection = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=WAIT_LIMIT)
    for method, target in [
        ("PUT", "/data/renamed?renameObject"),
        ("PUT", "/data/renamed?encryption"),
        ("DELETE", "/data/renamed?annotation"),
        ("DELETE", "/unharmed?metadataConfiguration"),
        ("PUT", "/made?abac"),
    ]:
        connection.request(method, target, headers={"x-amz-date": "20260101T000000Z"})
        answer = connection.getresponse()
        assert (answer.status, b"NotImplemented" in answer.read()) == (501, True), (method, target)
    assert s3.get_object(Bucket="data", Key="renamed")["Body"].read() == b"content"
    s3.delete_bucket(Bucket="unharmed")
    assert not (served.root / "made").exists()
