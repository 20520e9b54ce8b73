"""Types of receipts, and options of what is written."""

import json

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


def test_options_of_writes_are_refused_where_nothing_is_written():
    with pytest.raises(TypeError, match="content_type"):
        firstbyte.stat("s3://bucket/x", content_type="text/plain")
    with pytest.raises(ValueError, match="concurrency"):
        firstbyte.cp("s3://bucket/x", "y", concurrency=0)
