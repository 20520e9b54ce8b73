"""`cp`, compared with the program's verb."""

import json
import random
import subprocess
import zlib

import pytest
from serving import TARGET

import firstbyte

CONTENT = random.Random(9).randbytes(9_000_001)


def test_an_object_goes_there_and_back(place, served, tmp_path):
    receipt = firstbyte.cp(place("data", CONTENT), tmp_path)
    assert (tmp_path / "data").read_bytes() == CONTENT
    assert (receipt["objects"], receipt["bytes"], receipt["failed"]) == (1, len(CONTENT), [])
    assert receipt["seconds"] > 0 and receipt["verified"] in ("full", "length")
    firstbyte.cp(tmp_path / "data", "s3://bucket/there/")
    assert (served.root / "bucket" / "there" / "data").read_bytes() == CONTENT


def test_a_tree_goes_with_recursive_only(place, tmp_path):
    for number in range(30):
        place(f"tree/{number % 3}/{number}", b"%d" % number)
    with pytest.raises(IsADirectoryError):
        firstbyte.cp("s3://bucket/tree/", tmp_path)
    for copied, skipped in [(30, 0), (0, 30)]:
        receipt = firstbyte.cp("s3://bucket/tree", f"{tmp_path}/", recursive=True)
        assert (receipt["objects"], receipt["skipped"]) == (copied, skipped)
    assert (tmp_path / "tree" / "1" / "4").read_bytes() == b"4"
    assert firstbyte.cp("s3://bucket/tree/", tmp_path / "bare", recursive=True)["objects"] == 30
    assert (tmp_path / "bare" / "1" / "4").read_bytes() == b"4"


def test_what_fails_is_named_and_the_rest_is_done(place, tmp_path):
    place("some/fine", b"fine")
    place("some/taken", b"taken")
    (tmp_path / "taken" / "in the way").mkdir(parents=True)
    with pytest.raises(firstbyte.PartialError) as error:
        firstbyte.cp("s3://bucket/some/", tmp_path, recursive=True)
    [(location, cause)] = error.value.errors
    assert location == "s3://bucket/some/taken" and isinstance(cause, OSError)
    [named] = error.value.receipt["failed"]
    assert named["location"] == location and str(tmp_path / "taken") in named["error"]
    assert (tmp_path / "fine").read_bytes() == b"fine"


def test_the_receipt_is_that_of_the_program(place, tmp_path):
    location = place("data", CONTENT)
    copy = [TARGET / "debug" / "firstbyte", "--json", "cp", location, tmp_path / "one"]
    printed = json.loads(subprocess.run(copy, check=True, capture_output=True).stdout)
    returned = firstbyte.cp(location, tmp_path / "two")
    # These fields may differ. A receipt names a bound only if a limit was met, which may be another
    # one in each copy. Copies in one process share a store, which counts the kinds of requests for
    # all copies together.
    apart = {"bound_by", "requests_by_kind", "received_bytes", "sent_bytes"}
    first, second = ([field for field in receipt if field not in apart] for receipt in (returned, printed))
    assert first == second


def test_content_is_checked(place, tmp_path):
    location = place("data", CONTENT)
    with pytest.raises(OSError):
        firstbyte.cp(location, tmp_path / "x", checksum="sha256:" + "0" * 64)
    assert not (tmp_path / "x").exists()
    with pytest.raises(ValueError):
        firstbyte.cp(location, tmp_path / "x", checksum=f"crc32:{zlib.crc32(CONTENT):08x}:what")


def test_errors_name_the_side_they_are_about(place, tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        firstbyte.cp("s3://bucket/none", tmp_path / "x")
    assert error.value.filename == "s3://bucket/none"
    location = place("data", CONTENT)
    with pytest.raises(ValueError):
        firstbyte.cp(location, location)
    with pytest.raises(ValueError):
        firstbyte.cp(location, tmp_path / "x", limit_rate="fast")


def test_ctrl_c_ends_it_and_the_next_one_goes_on(place, tmp_path, interrupted):
    location, target = place("data", CONTENT), tmp_path / "data"
    # The rate is so low that the copy is interrupted before it ends.
    interrupted(f"cp({location!r}, {str(target)!r}, limit_rate='200kB')", lambda: any(tmp_path.iterdir()))
    assert not target.exists()
    firstbyte.cp(location, target)
    assert target.read_bytes() == CONTENT
