"""Budgets, dollars and predictions, as by the program's `--budget`, `--bill-as`, `--transfer` and
`--model`."""

import errno

import pytest

import firstbyte

BILL = {"bill_as": "s3-standard", "transfer": "internet"}
# List prices of S3 Standard in us-east-1, in dollars per request and per byte.
GET, PUT, BYTE = 4e-7, 5e-6, 0.09 / 1024**3
MANY = {f"budget/{number:02}": bytes([number]) * 200_000 for number in range(40)}


def dollars(receipt):
    kinds = receipt["requests_by_kind"]
    reads = kinds["get"] + kinds["head"] + kinds["other"]
    return reads * GET + (kinds["put"] + kinds["list"]) * PUT + receipt["received_bytes"] * BYTE


def test_dollars_are_those_of_one_run(minio, tmp_path):
    location = minio.put("budget-one", b"x" * 3_000_000)
    for name in ("first", "second"):
        receipt = firstbyte.cp(location, tmp_path / name, **BILL, **minio.options)
        assert receipt["received_bytes"] == 3_000_000
        assert receipt["usd"] == pytest.approx(dollars(receipt), abs=1e-12)
    plain = firstbyte.cp(location, tmp_path / "third", **minio.options)
    assert "usd" not in plain and "requests_by_kind" not in plain
    cached = firstbyte.hydrate(location, cache=tmp_path / "cache", **BILL, **minio.options)
    assert cached["usd"] == pytest.approx(dollars(cached), abs=1e-12)


@pytest.mark.parametrize("verb", ["cp", "sync", "mv"])
def test_a_budget_ends_a_tree_and_nothing_is_lost(verb, minio, tmp_path):
    for name, content in MANY.items():
        minio.put(name, content)
    # The budget is what 20 objects of 200 kB cost to the internet.
    words = {"budget": 0.00034} | BILL | minio.options
    words |= {} if verb == "sync" else {"recursive": True}
    with pytest.raises(OSError, match="budget of 0.00034 USD") as caught:
        getattr(firstbyte, verb)("s3://bucket/budget/", tmp_path / "here/", **words)
    assert caught.value.errno == errno.EDQUOT and caught.value.kind == "full"
    here = {f"budget/{path.name}": path.read_bytes() for path in (tmp_path / "here").glob("[0-9][0-9]")}
    there = {name: content for name in MANY if (content := minio.get(name)) is not None}
    assert 0 < len(here) < 25
    assert there | here == MANY


def test_a_budget_ends_a_copy_and_hydration(minio, tmp_path):
    location = minio.put("budget-large", b"y" * 20_000_000)
    words = {"budget": "0.0008USD"} | BILL | minio.options
    with pytest.raises(OSError, match="budget"):
        firstbyte.cp(location, tmp_path / "copy", **words)
    assert not (tmp_path / "copy").exists()
    with pytest.raises(OSError, match="budget"):
        firstbyte.hydrate(location, cache=tmp_path / "cache", **words)
    [status] = firstbyte.status(location, cache=tmp_path / "cache")
    assert status["state"] == "partial"
    # Each run has a budget of its own.
    assert firstbyte.cp(location, tmp_path / "copy", **words | {"budget": 1})["usd"] < 0.002


def test_a_model_predicts_the_time(minio, tmp_path):
    location = minio.put("budget-one", b"x" * 3_000_000)
    receipt = firstbyte.cp(location, tmp_path / "copy", model="s3-standard", **minio.options)
    low, high = receipt["predicted_range"]
    assert low < receipt["predicted_seconds"] < high


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ({"budget": 1}, "nothing is billed here"),
        ({"budget": 1, "bill_as": "s3-standard"}, "network path is not known; give transfer"),
        ({"budget": "1"}, "budget: `1` has no unit"),
        ({"budget": -1}, "budget: -1 is no sum of money"),
        ({"transfer": "moon"}, "transfer: write none, zone, region or internet"),
        ({"bill_as": "s4"}, "bill_as: write none, or one of s3-standard"),
        ({"model": __file__}, "test_budget.py: "),
    ],
)
def test_terms_that_cannot_be_kept_are_one_line(words, line, minio, tmp_path):
    with pytest.raises(ValueError, match=line) as caught:
        firstbyte.cp("s3://bucket/x", tmp_path / "x", **words, **minio.options)
    assert "\n" not in str(caught.value)
    with pytest.raises(FileNotFoundError):
        firstbyte.cp("s3://bucket/x", tmp_path / "x", model="/no/model", **minio.options)
    with pytest.raises(ValueError, match="budget with manifest"):
        firstbyte.cp(None, tmp_path, manifest="/no/manifest", shard="0/1", budget=1, **minio.options)
