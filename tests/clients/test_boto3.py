"""boto3: the S3 calls one by one, with the checksums and chunked signatures current SDKs send."""

import urllib.request

import pytest
from botocore.exceptions import ClientError
from conftest import BIG, code, random_bytes
from waiting import WAIT_LIMIT

PART = 5 << 20


def test_lists_buckets_and_finds_the_one_there(s3):
    assert "data" in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
    s3.head_bucket(Bucket="data")
    s3.get_bucket_location(Bucket="data")


def test_says_which_bucket_or_key_is_missing(s3):
    with pytest.raises(ClientError) as error:
        s3.get_object(Bucket="data", Key="absent")
    assert code(error) == "NoSuchKey"
    with pytest.raises(ClientError) as error:
        s3.list_objects_v2(Bucket="absent")
    assert code(error) == "NoSuchBucket"


def test_lists_in_byte_order_page_by_page(s3):
    for key in ("order/a.txt", "order/a/b", "order/a0", "order/Z"):
        s3.put_object(Bucket="data", Key=key, Body=b"x")
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket="data", Prefix="order/", PaginationConfig={"PageSize": 1})
    keys = [row["Key"] for page in pages for row in page.get("Contents", [])]
    assert keys == ["order/Z", "order/a.txt", "order/a/b", "order/a0"]
    after = s3.list_objects_v2(Bucket="data", Prefix="order/", StartAfter="order/a.txt")
    assert [row["Key"] for row in after["Contents"]] == ["order/a/b", "order/a0"]


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "CRC64NVME", "SHA256"])
def test_puts_with_a_trailing_checksum(s3, algorithm):
    body = random_bytes(11, 200_000)
    s3.put_object(Bucket="data", Key=f"sum/{algorithm}", Body=body, ChecksumAlgorithm=algorithm)
    assert s3.get_object(Bucket="data", Key=f"sum/{algorithm}")["Body"].read() == body


def test_refuses_a_body_that_is_not_what_its_checksum_says(s3):
    with pytest.raises(ClientError):
        s3.put_object(Bucket="data", Key="sum/wrong", Body=b"right", ChecksumSHA256="A" * 43 + "=")
    with pytest.raises(ClientError):
        s3.head_object(Bucket="data", Key="sum/wrong")


def test_keeps_user_metadata_and_content_type(s3):
    s3.put_object(Bucket="data", Key="meta", Body=b"m", Metadata={"colour": "green"}, ContentType="text/x-colour")
    head = s3.head_object(Bucket="data", Key="meta")
    assert head["Metadata"] == {"colour": "green"} and head["ContentType"] == "text/x-colour"
    assert head["ContentLength"] == 1


def test_gets_ranges_and_obeys_conditions(s3):
    part = s3.get_object(Bucket="data", Key="big.bin", Range="bytes=100-199")
    assert part["Body"].read() == random_bytes(1, BIG)[100:200]
    assert part["ContentRange"] == f"bytes 100-199/{BIG}"
    s3.get_object(Bucket="data", Key="big.bin", IfMatch=part["ETag"])
    with pytest.raises(ClientError) as error:
        s3.get_object(Bucket="data", Key="big.bin", IfMatch='"other"')
    assert code(error) == "PreconditionFailed"


def test_transfers_a_large_file_by_parts(s3, tmp_path):
    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(random_bytes(5, BIG))
    s3.upload_file(str(source), "data", "boto3/large.bin")
    s3.download_file("data", "boto3/large.bin", str(back))
    assert back.read_bytes() == source.read_bytes()


def test_lists_the_parts_of_an_upload_and_completes_it(s3):
    upload = s3.create_multipart_upload(Bucket="data", Key="parts.bin")["UploadId"]
    name = {"Bucket": "data", "Key": "parts.bin", "UploadId": upload}
    # The parts are uploaded out of order, as clients that upload in parallel do.
    bodies = {2: random_bytes(22, 1000), 1: random_bytes(21, PART)}
    etags = {n: s3.upload_part(**name, PartNumber=n, Body=body)["ETag"] for n, body in bodies.items()}
    assert upload in [u["UploadId"] for u in s3.list_multipart_uploads(Bucket="data")["Uploads"]]
    assert [(p["PartNumber"], p["Size"]) for p in s3.list_parts(**name)["Parts"]] == [(1, PART), (2, 1000)]
    parts = [{"PartNumber": n, "ETag": etags[n]} for n in (1, 2)]
    s3.complete_multipart_upload(**name, MultipartUpload={"Parts": parts})
    assert s3.get_object(Bucket="data", Key="parts.bin")["Body"].read() == bodies[1] + bodies[2]


def test_leaves_nothing_of_an_aborted_upload(s3):
    upload = s3.create_multipart_upload(Bucket="data", Key="aborted.bin")["UploadId"]
    s3.upload_part(Bucket="data", Key="aborted.bin", UploadId=upload, PartNumber=1, Body=random_bytes(1, PART))
    s3.abort_multipart_upload(Bucket="data", Key="aborted.bin", UploadId=upload)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket="data", Prefix="aborted.bin")
    with pytest.raises(ClientError):
        s3.head_object(Bucket="data", Key="aborted.bin")


def test_copies_and_deletes_objects(s3):
    s3.copy_object(Bucket="data", Key="copied", CopySource={"Bucket": "data", "Key": "small-03"})
    assert s3.get_object(Bucket="data", Key="copied")["Body"].read() == random_bytes(3, 1003)
    s3.put_object(Bucket="data", Key="gone", Body=b"")
    done = s3.delete_objects(Bucket="data", Delete={"Objects": [{"Key": "copied"}, {"Key": "gone"}]})
    assert sorted(row["Key"] for row in done["Deleted"]) == ["copied", "gone"] and "Errors" not in done
    with pytest.raises(ClientError):
        s3.head_object(Bucket="data", Key="copied")


def test_a_presigned_link_opens_without_credentials(s3):
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "data", "Key": "small-07"}, ExpiresIn=60)
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(url, timeout=WAIT_LIMIT) as answer:
        assert answer.read() == random_bytes(7, 1007)
