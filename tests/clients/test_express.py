"""Directory buckets of S3 Express One Zone, in `serve`: boto3, and the program itself, begin
sessions and sign with them."""

import datetime

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from conftest import BIG, code, random_bytes
from serving import AWS, PROGRAM, key_file, serving

BUCKET = "fast--use1-az4--x-s3"
READER = {"AWS_ACCESS_KEY_ID": "reader", "AWS_SECRET_ACCESS_KEY": "reader-secret"}


# botocore puts the path of an endpoint after the name of a directory bucket, so `serve` must be at
# the root.
AT_ROOT = pytest.mark.parametrize("express", [[]], indirect=True)
ANYWHERE = pytest.mark.parametrize("express", [[], ["--base-path", "/some/files"]], indirect=True)


@pytest.fixture(scope="module")
def express(request, tmp_path_factory):
    """Starts a server that verifies signatures and has a directory bucket."""
    keys = key_file(
        tmp_path_factory.mktemp("keys") / "keys",
        f"{AWS['AWS_ACCESS_KEY_ID']} {AWS['AWS_SECRET_ACCESS_KEY']} write\n"
        f"{READER['AWS_ACCESS_KEY_ID']} {READER['AWS_SECRET_ACCESS_KEY']} read\n",
    )
    root = tmp_path_factory.mktemp("served")
    (root / "data").mkdir()
    with serving(root, "--auth", str(keys), *request.param) as served:
        served.run(PROGRAM, "--endpoint-url", served.url, "mb", f"s3://{BUCKET}")
        yield served


def client(served, key=AWS["AWS_ACCESS_KEY_ID"], secret=AWS["AWS_SECRET_ACCESS_KEY"]):
    """Makes a boto3 client without a fixed signature version, so that it chooses the one for the
    bucket.
    """
    config = Config(retries={"total_max_attempts": 1})
    return boto3.client(
        "s3",
        endpoint_url=served.url,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        region_name="us-east-1",
        config=config,
    )


def as_text(value) -> str:
    return value.decode() if isinstance(value, bytes) else value


@AT_ROOT
def test_boto3_uses_a_directory_bucket(express, tmp_path):
    s3 = client(express)
    signed = []
    s3.meta.events.register("before-send.s3", lambda request, **_: signed.append({name: as_text(value) for name, value in request.headers.items()}))
    s3.put_object(Bucket=BUCKET, Key="dir/a b", Body=b"content", Metadata={"run": "7"})
    assert s3.get_object(Bucket=BUCKET, Key="dir/a b")["Body"].read() == b"content"
    (tmp_path / "big").write_bytes(random_bytes(1, BIG))
    s3.upload_file(str(tmp_path / "big"), BUCKET, "dir/big")
    s3.download_file(BUCKET, "dir/big", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == random_bytes(1, BIG)
    s3.copy_object(Bucket=BUCKET, Key="dir/copy", CopySource={"Bucket": BUCKET, "Key": "dir/a b"})
    listed = s3.list_objects_v2(Bucket=BUCKET, Prefix="dir/", Delimiter="/")
    assert {row["Key"] for row in listed["Contents"]} == {"dir/a b", "dir/big", "dir/copy"}
    s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": "dir/copy"}, {"Key": "dir/big"}]})
    assert s3.head_object(Bucket=BUCKET, Key="dir/a b")["Metadata"] == {"run": "7"}
    assert all("/s3express/aws4_request" in headers["Authorization"] for headers in signed)
    tokens = [name for headers in signed for name in headers if name.lower() == "x-amz-s3session-token"]
    # The other requests begin a session, or copy. For those, botocore signs with the user's own
    # key.
    assert len(signed) > len(tokens) > len(signed) - 3


@ANYWHERE
def test_we_use_a_directory_bucket(express, tmp_path):
    def run(*words):
        return express.run(PROGRAM, "--endpoint-url", express.url, *map(str, words))

    for number in range(30):
        path = tmp_path / "tree" / f"d{number % 3}" / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(number))
    (tmp_path / "tree" / "big").write_bytes(random_bytes(2, BIG))
    run("cp", "-r", tmp_path / "tree", f"s3://{BUCKET}/t")
    run("check", "--content", tmp_path / "tree", f"s3://{BUCKET}/t")
    run("cp", "-r", f"s3://{BUCKET}/t/", f"s3://{BUCKET}/u/")
    run("cp", "-r", f"s3://{BUCKET}/u/", "s3://data/u/")
    run("check", f"s3://{BUCKET}/t", "s3://data/u")
    (tmp_path / "tree" / "d0" / "0.txt").unlink()
    run("sync", "--delete", tmp_path / "tree", f"s3://{BUCKET}/t")
    assert "d0/0.txt" not in run("ls", "-R", f"s3://{BUCKET}/t")
    run("mv", f"s3://{BUCKET}/t/big", f"s3://{BUCKET}/moved")
    assert run("stat", f"s3://{BUCKET}/moved")
    run("rm", "-r", "--yes", f"s3://{BUCKET}/t", f"s3://{BUCKET}/u")


@AT_ROOT
def test_a_session_gives_no_more_than_its_key_its_mode_and_its_bucket(express):
    writer, reader = client(express), client(express, "reader", "reader-secret")
    writer.put_object(Bucket=BUCKET, Key="k", Body=b"content")
    assert reader.get_object(Bucket=BUCKET, Key="k")["Body"].read() == b"content"
    with pytest.raises(ClientError) as error:
        reader.put_object(Bucket=BUCKET, Key="k", Body=b"other")
    assert code(error) == "AccessDenied"
    with pytest.raises(ClientError) as error:
        client(express, "reader", "guessed").get_object(Bucket=BUCKET, Key="k")
    assert code(error) == "SignatureDoesNotMatch"
    with pytest.raises(ClientError) as error:
        writer.get_object(Bucket="absent--use1-az4--x-s3", Key="k")
    assert code(error) == "NoSuchBucket"
    begun = writer.create_session(Bucket=BUCKET, SessionMode="ReadOnly")["Credentials"]
    assert begun["Expiration"] > datetime.datetime.now(datetime.UTC)
    with pytest.raises(ClientError) as error:
        writer.create_session(Bucket="data")
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
