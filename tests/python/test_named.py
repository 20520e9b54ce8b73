"""`s3+NAME://`: a service that `config.toml` names, in the functions and through fsspec."""

import firstbyte
import fsspec
import pytest


@pytest.fixture
def named(store, tmp_path, monkeypatch):
    """Yields the store, which can be accessed only by the name `lab`."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    # fsspec caches file systems by their options, and would return one with an earlier
    # configuration.
    fsspec.get_filesystem_class("firstbyte").clear_instance_cache()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", store.options["access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", store.options["secret_access_key"])
    (tmp_path / "firstbyte").mkdir()
    (tmp_path / "firstbyte/config.toml").write_text(f"[endpoint.lab]\nurl = '{store.options['endpoint_url']}'\n")
    return store


def test_the_functions_take_a_named_endpoint(named, tmp_path):
    named.put("dir/a", b"content")
    place = "s3+lab://bucket/dir"
    with firstbyte.open(f"{place}/a") as file:
        assert file.read() == b"content"
    assert firstbyte.listdir(place) == ["a"]
    firstbyte.cp(f"{place}/a", str(tmp_path / "a"))
    assert (tmp_path / "a").read_bytes() == b"content"


def test_fsspec_takes_a_named_endpoint(named):
    named.put("dir/a", b"content")
    fs = fsspec.filesystem("firstbyte", target_protocol="s3+lab")
    assert "bucket/dir/a" in fs.ls("bucket/dir", detail=False)
    with fsspec.open("firstbyte://s3+lab://bucket/dir/a") as file:
        assert file.read() == b"content"
    fs.pipe_file("s3+lab://bucket/dir/b", b"more")
    assert named.get("dir/b") == b"more"


def test_an_unknown_name_is_said(named):
    with pytest.raises(ValueError, match=r"\[endpoint.other\]"):
        firstbyte.open("s3+other://bucket/key")
