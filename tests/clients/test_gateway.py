"""Gateways: other programs read the same objects through a gateway as from its origin, a
`serve`."""

import hashlib
import json
import urllib.error
import urllib.request

import boto3
import duckdb
import fsspec
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from conftest import BIG, BIN, client, code, plant, random_bytes, tree
from serving import AWS, PROGRAM, key_file, serving
from playwright.sync_api import expect
from test_chromium import browser, entry  # noqa: F401
from test_s3_tools import S5CMD
from waiting import CLIENT_TIMEOUT

TABLE = pyarrow.table({"number": list(range(50_000)), "name": [f"n{number % 97}" for number in range(50_000)]})


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    root = plant(tmp_path_factory.mktemp("origin"))
    pyarrow.parquet.write_table(TABLE, root / "data" / "table.parquet", row_group_size=5_000)
    with serving(root) as served:
        yield served


@pytest.fixture(scope="module")
def gateway(origin, tmp_path_factory):
    """Starts a gateway that has keys of its own."""
    cache = tmp_path_factory.mktemp("cache")
    keys = key_file(tmp_path_factory.mktemp("keys") / "keys")
    options = ["--endpoint-url", origin.url, "--cache", str(cache), "--auth", str(keys)]
    with serving("s3://data", *options, write=False, env=AWS) as served:
        yield served


@pytest.fixture(scope="module")
def open_gateway(origin, tmp_path_factory):
    """Starts a gateway without keys."""
    cache = tmp_path_factory.mktemp("cache")
    options = ["--endpoint-url", origin.url, "--cache", str(cache)]
    with serving("s3://data", *options, write=False, env=AWS) as served:
        yield served


def test_boto3_reads_heads_lists_and_is_refused_to_write(gateway, origin):
    s3, own = client(gateway), client(origin)
    found, expected = s3.head_object(Bucket="data", Key="big.bin"), own.head_object(Bucket="data", Key="big.bin")
    for name in ("ETag", "LastModified", "ContentLength", "ContentType"):
        assert found[name] == expected[name], name
    assert s3.get_object(Bucket="data", Key="big.bin")["Body"].read() == random_bytes(1, BIG)
    part = s3.get_object(Bucket="data", Key="big.bin", Range="bytes=5-9", IfMatch=found["ETag"])
    assert part["Body"].read() == random_bytes(1, BIG)[5:10]
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket="data", PaginationConfig={"PageSize": 3})
    names = [row["Key"] for page in pages for row in page["Contents"]]
    assert names == sorted(names) and len(names) == 23
    for attempt in (
        lambda: s3.put_object(Bucket="data", Key="x", Body=b"x"),
        lambda: s3.delete_object(Bucket="data", Key="big.bin"),
        lambda: s3.create_multipart_upload(Bucket="data", Key="x"),
        lambda: s3.delete_objects(Bucket="data", Delete={"Objects": [{"Key": "big.bin"}]}),
    ):
        with pytest.raises(ClientError) as refused:
            attempt()
        assert code(refused) == "AccessDenied" and "only reads" in str(refused.value)
    with pytest.raises(ClientError) as missing:
        s3.get_object(Bucket="data", Key="none")
    assert code(missing) == "NoSuchKey"


def test_boto3_downloads_by_parts_and_by_a_presigned_url(gateway, tmp_path):
    s3 = client(gateway)
    s3.download_file("data", "big.bin", str(tmp_path / "big"))
    assert (tmp_path / "big").read_bytes() == random_bytes(1, BIG)
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "data", "Key": "small-03"})
    assert urllib.request.urlopen(url, timeout=CLIENT_TIMEOUT).read() == random_bytes(3, 1003)


def test_a_wrong_secret_opens_nothing(gateway):
    wrong = boto3.client(
        "s3",
        endpoint_url=gateway.url,
        aws_access_key_id=AWS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key="another",
        region_name="us-east-1",
        config=Config(retries={"total_max_attempts": 1}),
    )
    with pytest.raises(ClientError) as refused:
        wrong.get_object(Bucket="data", Key="small-03")
    assert code(refused) == "SignatureDoesNotMatch"
    with pytest.raises(urllib.error.HTTPError) as bare:
        urllib.request.urlopen(f"{gateway.url}/data/small-03", timeout=CLIENT_TIMEOUT)
    assert bare.value.code == 401


def test_aws_cli_lists_and_synchronises(gateway, origin, tmp_path):
    def aws(*words):
        return gateway.run(str(BIN / "aws"), "--endpoint-url", gateway.url, *words)

    assert "deep/er/näme with space.txt" in aws("s3", "ls", "--recursive", "s3://data/")
    aws("s3", "sync", "s3://data/", str(tmp_path / "back"))
    assert tree(tmp_path / "back") == tree(origin.root / "data")
    assert aws("s3", "sync", "s3://data/", str(tmp_path / "back")) == ""
    levels = json.loads(aws("s3api", "list-objects-v2", "--bucket", "data", "--delimiter", "/"))
    assert {"Prefix": "deep/"} in levels["CommonPrefixes"]


def test_s5cmd_copies(gateway, origin, tmp_path):
    def s5cmd(*words):
        return gateway.run(str(S5CMD), "--endpoint-url", gateway.url, *words)

    assert "small-19" in s5cmd("ls", "s3://data/*")
    s5cmd("cp", "s3://data/*", f"{tmp_path}/back/")
    assert tree(tmp_path / "back") == tree(origin.root / "data")


def test_rclone_copies_and_checks(gateway, origin, tmp_path):
    env = {
        "RCLONE_S3_PROVIDER": "Other",
        "RCLONE_S3_ENDPOINT": gateway.url,
        "RCLONE_S3_ACCESS_KEY_ID": AWS["AWS_ACCESS_KEY_ID"],
        "RCLONE_S3_SECRET_ACCESS_KEY": AWS["AWS_SECRET_ACCESS_KEY"],
    }
    gateway.run("rclone", "--config", "/dev/null", "copy", ":s3:data", str(tmp_path / "back"), env=env)
    assert tree(tmp_path / "back") == tree(origin.root / "data")
    gateway.run("rclone", "--config", "/dev/null", "check", "--download", ":s3:data", str(tmp_path / "back"), env=env)


def test_pyarrow_and_duckdb_read_columns(gateway):
    host = gateway.url.removeprefix("http://")
    keys = {"access_key": AWS["AWS_ACCESS_KEY_ID"], "secret_key": AWS["AWS_SECRET_ACCESS_KEY"]}
    system = pyarrow.fs.S3FileSystem(endpoint_override=host, scheme="http", region="us-east-1", **keys)
    read = pyarrow.dataset.dataset("data/table.parquet", filesystem=system).to_table(columns=["number"])
    assert read["number"].to_pylist() == TABLE["number"].to_pylist()
    at = {"endpoint_url": gateway.url, "region_name": "us-east-1"}
    files = fsspec.filesystem("s3", key=keys["access_key"], secret=keys["secret_key"], client_kwargs=at)
    base = duckdb.connect()
    base.register_filesystem(files)
    query = "select name, count(*) from 's3://data/table.parquet' where number < 970 group by name"
    counted = base.execute(query).fetchall()
    assert len(counted) == 97 and {count for _, count in counted} == {10}


def test_curl_and_our_own_copy_and_mount_read_it(open_gateway, origin, tmp_path):
    part = str(tmp_path / "part")
    open_gateway.run("curl", "-sf", "-r", "5-9", f"{open_gateway.url}/data/big.bin", "-o", part)
    assert (tmp_path / "part").read_bytes() == random_bytes(1, BIG)[5:10]
    ours = {"FIRSTBYTE_ENDPOINT_URL": open_gateway.url}
    open_gateway.run(str(PROGRAM), "-q", "cp", "-r", "s3://data/", str(tmp_path / "back"), env=ours)
    assert tree(tmp_path / "back") == tree(origin.root / "data")
    found = open_gateway.run(str(PROGRAM), "cat", "s3://data/deep/er/näme with space.txt", env=ours)
    assert found == "deep"


def test_the_cache_serves_status_and_release(open_gateway, origin, tmp_path):
    """The cache of a gateway can be used like any other cache."""
    cache = tmp_path / "cache"
    options = ["--endpoint-url", origin.url, "--cache", str(cache), "--hydrate"]
    with serving("s3://data", *options, write=False, env=AWS) as served:
        ours = {"FIRSTBYTE_ENDPOINT_URL": origin.url, "FIRSTBYTE_CACHE": str(cache)}
        served.run(str(PROGRAM), "-q", "hydrate", "-r", "s3://data/", env=ours)
        rows = served.run(str(PROGRAM), "--json", "status", "-r", "s3://data/", env=ours).splitlines()
        assert rows and all(json.loads(row).get("state", "hydrated") == "hydrated" for row in rows), rows
        served.run(str(PROGRAM), "-q", "release", "-r", "s3://data/", env=ours)
        url = f"{served.url}/data/big.bin"
        read = urllib.request.urlopen(url, timeout=CLIENT_TIMEOUT).read()
        assert hashlib.sha256(read).digest() == hashlib.sha256(random_bytes(1, BIG)).digest()


def test_chromium_shows_the_page_and_downloads(browser, open_gateway):  # noqa: F811
    page = browser.new_page()
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(f"{open_gateway.url}/data/")
    expect(entry(page, "big.bin")).to_be_visible()
    with page.expect_download() as download:
        page.evaluate("location.href = '/data/small-03?download'")
    assert download.value.path().read_bytes() == random_bytes(3, 1003)
    entry(page, "deep").click()
    expect(entry(page, "er")).to_be_visible()
    page.close()
    assert problems == []
