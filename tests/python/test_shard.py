"""`plan`, `cp` and `hydrate` of a shard, and `merge` have the results of the program."""

import json

import pytest

import firstbyte


@pytest.fixture
def manifest(place, tmp_path):
    """Makes a manifest of 12 objects in 3 shards."""
    for number in range(12):
        place(f"sharded/d{number % 2}/{number}", b"x" * (1_000 + number))
    place("sharded/skipped.tmp", b"")
    header = firstbyte.plan(iter(["s3://bucket/sharded/"]), tmp_path / "m", shards=3, exclude=["*.tmp"])
    assert sum(shard["objects"] for shard in header["shards"]) == 12
    return tmp_path / "m"


def test_shards_together_are_the_whole(manifest, tmp_path):
    receipts = []
    for shard in range(3):
        receipt = firstbyte.cp(None, tmp_path / "to", manifest=manifest, shard=f"{shard}/3")
        hydrated = firstbyte.hydrate(manifest=manifest, shard=f"{shard}/3")
        assert receipt["shard"]["done"] == hydrated["shard"]["done"]
        receipts.append(tmp_path / f"r{shard}")
        receipts[-1].write_text(json.dumps(receipt))
    assert len([path for path in (tmp_path / "to").rglob("*") if path.is_file()]) == 12
    merged = firstbyte.merge(manifest, iter(receipts))
    assert merged["done"]["objects"] == 12 and not merged["lost_shards"]
    assert firstbyte.merge(manifest, receipts[1:])["lost_shards"] == [0]


def test_what_does_not_fit_is_refused(manifest, tmp_path):
    with pytest.raises(ValueError, match="--shard has 4 shards and the manifest has 3"):
        firstbyte.cp(None, tmp_path / "to", manifest=manifest, shard="0/4")
    with pytest.raises(ValueError, match="write I/N"):
        firstbyte.cp(None, tmp_path / "to", manifest=manifest, shard="x")
    with pytest.raises(ValueError, match="give a source, or a manifest"):
        firstbyte.cp(None, tmp_path / "to")
    with pytest.raises(ValueError, match="with manifest, give shard"):
        firstbyte.hydrate("s3://bucket/sharded", manifest=manifest, shard="0/3")
    with pytest.raises(FileNotFoundError):
        firstbyte.cp(None, tmp_path / "to", manifest=tmp_path / "none", shard="0/3")
    with pytest.raises(FileNotFoundError):
        firstbyte.merge(manifest, [tmp_path / "none"])
    with pytest.raises(OSError, match="is not a manifest"):
        firstbyte.cp(None, tmp_path / "to", manifest=__file__, shard="0/3")


def test_options_that_would_be_ignored_are_refused(manifest, tmp_path):
    with pytest.raises(ValueError, match="give them to plan"):
        firstbyte.cp(None, tmp_path / "to", manifest=manifest, shard="0/3", recursive=True, exclude=["*"])
    assert not (tmp_path / "to").exists()


def test_a_manifest_is_a_local_file(manifest, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="local files"):
        firstbyte.plan("s3://bucket/sharded/", "s3://bucket/m")
    assert not (tmp_path / "s3:").exists()
    firstbyte.plan("s3://bucket/sharded/", f"file://{tmp_path}/other", shards=3)
    assert (tmp_path / "other").exists()
    assert firstbyte.merge(f"file://{tmp_path}/other", [])["incomplete_shards"] == [0, 1, 2]
