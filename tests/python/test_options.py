"""Options: one list for all functions; an unknown name is an error that suggests the likely one."""

import inspect

import fsspec
import pytest

import firstbyte
from firstbyte import _options

NOWHERE = {"endpoint_url": "http://127.0.0.1:9"}
CALLS = {
    "open": lambda **options: firstbyte.open("s3://bucket/x", **options),
    "open to write": lambda **options: firstbyte.open("s3://bucket/x", "wb", **options),
    "cp": lambda **options: firstbyte.cp("s3://bucket/x", "/nowhere/x", **options),
    "sync": lambda **options: firstbyte.sync("s3://bucket/x", "/nowhere/x", **options),
    "hydrate": lambda **options: firstbyte.hydrate("s3://bucket/x", **options),
    "plan": lambda **options: firstbyte.plan("s3://bucket/x", "/nowhere/m", **options),
    "ls": lambda **options: firstbyte.ls("s3://bucket/x", **options),
    "glob": lambda **options: firstbyte.glob("s3://bucket/x*", **options),
    "listdir": lambda **options: firstbyte.listdir("s3://bucket/x", **options),
    "listdir of a directory": lambda **options: firstbyte.listdir("/", **options),
    "walk": lambda **options: firstbyte.walk("s3://bucket/x", **options),
    "walk of a directory": lambda **options: firstbyte.walk("/", **options),
    "list_arrow": lambda **options: firstbyte.list_arrow("s3://bucket/x", **options),
    "iter_batches": lambda **options: firstbyte.iter_batches("s3://bucket/x", **options),
    "read_many": lambda **options: firstbyte.read_many(["s3://bucket/x"], **options),
    "iter_many": lambda **options: firstbyte.iter_many(["s3://bucket/x"], **options),
    "load_safetensors": lambda **options: firstbyte.load_safetensors("s3://bucket/x", **options),
    "arrow_filesystem": lambda **options: firstbyte.arrow_filesystem(**options),
    "fsspec": lambda **options: fsspec.filesystem("firstbyte", **options),
    "chained": lambda **options: fsspec.filesystem("firstbyte", target_protocol="s3", target_options=options),
}


@pytest.mark.parametrize("call", CALLS)
def test_an_unknown_option_is_a_type_error_with_the_nearest_name(call):
    for wrong, meant in [
        ("endpoint_ur", "endpoint_url"),
        ("anonymus", "anonymous"),
        ("memry", "memory"),
        ("region_name", "region"),
        ("aws_access_key_id", "access_key_id"),
    ]:
        with pytest.raises(TypeError, match=f"'{wrong}'.*'{meant}'"):
            CALLS[call](**{wrong: "x"}, **NOWHERE)
    for wrong in ("requester_pays", "use_ssl", "config_kwargs", "default_block_size", "qqqq"):
        with pytest.raises(TypeError, match=f"'{wrong}'"):
            CALLS[call](**{wrong: None}, **NOWHERE)


@pytest.mark.parametrize("call", [call for call in CALLS if call not in ("arrow_filesystem", "fsspec", "chained")])
def test_names_of_other_file_systems_are_named_in_our_words(call):
    for theirs, ours in _options.ALIASES.items():
        with pytest.raises(TypeError, match=f"'{theirs}'.*'{ours}'"):
            CALLS[call](**{theirs: "x"})


def test_keys_that_are_given_are_used(minio, monkeypatch):
    location = minio.put("keyed", b"content")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ambient")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    assert firstbyte.open(location, cache=False, **minio.options).read() == b"content"
    options = dict(minio.options)
    with pytest.raises(PermissionError):
        firstbyte.open(location, cache=False, **options | {"secret_access_key": "wrong"})
    key, secret = options.pop("access_key_id"), options.pop("secret_access_key")
    with pytest.raises(PermissionError):
        firstbyte.open(location, cache=False, **options)
    for more in ({"access_key_id": key}, {"secret_access_key": secret}, {"session_token": "t"}):
        with pytest.raises(ValueError, match="access key"):
            firstbyte.open(location, **options, **more)
    region, url = options["region"], options["endpoint_url"]
    for theirs in [
        {"key": key, "secret": secret, "endpoint": url, "region": region},
        {"key": key, "secret": secret, "client_kwargs": {"endpoint_url": url, "region_name": region}},
        {"client_kwargs": {"aws_access_key_id": key, "aws_secret_access_key": secret}, **options},
        {"key": key, "access_key_id": key, "secret": secret, **options},
    ]:
        assert fsspec.filesystem("firstbyte", **theirs).cat("bucket/keyed") == b"content"
        chained = fsspec.filesystem("firstbyte", target_protocol="s3", target_options=theirs)
        assert chained.cat("bucket/keyed") == b"content"


@pytest.mark.parametrize(
    ("option", "value"),
    [("memory", "1 apple"), ("memory", -1), ("memory", 2**70), ("cache_size", 1.5), ("cache", 5), ("region", 5), ("profile", b"x")]
    + [("deadline", "soon"), ("deadline", -1), ("endpoint_url", "nope"), ("endpoint_url", "")],
)
def test_an_error_of_an_option_names_it(option, value):
    with pytest.raises((ValueError, TypeError), match=f"^{option}: "):
        firstbyte.open("s3://bucket/x", **{option: value})


@pytest.mark.parametrize(
    ("call", "wrong"),
    [
        (lambda **options: firstbyte.presign("s3://bucket/x", **options), {"expires": value})
        for value in (0, -1, "1h", 1.5, 10**9, 2**70)
    ]
    + [
        (lambda **options: firstbyte.cp("s3://bucket/x", "/nowhere/x", **options), wrong)
        for wrong in ({"limit_rate": "x"}, {"limit_rate": -1}, {"metadata": {"a": 1}}, {"tags": [1]}, {"concurrency": 0}, {"budget": "x"})
    ]
    + [(lambda **options: firstbyte.read_many(["s3://bucket/x"], **options), {"concurrency": value}) for value in (0, -1, "x")]
    + [
        (lambda **options: firstbyte.plan("s3://bucket/x", "/nowhere/m", **options), {"shards": -1}),
        (lambda **options: list(firstbyte.iter_batches("/", **options)), {"batch_size": -1}),
    ],
)
def test_an_error_of_an_argument_names_it(call, wrong):
    with pytest.raises((ValueError, TypeError), match=next(iter(wrong))):
        call(**wrong)


def test_what_is_given_twice_and_differs_is_an_error():
    for twice in [
        {"endpoint": "http://one", "endpoint_url": "http://other"},
        {"key": "one", "access_key_id": "other"},
        {"anon": True, "anonymous": False},
        {"endpoint_url": "http://one", "client_kwargs": {"endpoint_url": "http://other"}},
    ]:
        with pytest.raises(ValueError, match="differ"):
            fsspec.filesystem("firstbyte", **twice)
    with pytest.raises(TypeError, match="'verify'"):
        fsspec.filesystem("firstbyte", client_kwargs={"verify": False})


def test_arguments_of_methods_that_would_be_ignored_are_errors(minio):
    minio.put("method", b"content")
    fs = fsspec.filesystem("firstbyte", **minio.options)
    for call in [
        lambda: fs.open("bucket/method", version_id="x"),
        lambda: fs.open("bucket/method", "wb", ACL="public-read"),
        lambda: fs.open("bucket/method", "r", version_id="x"),
        lambda: fs.cat_file("bucket/method", version_id="x"),
        lambda: fs.cat("bucket/method", version_id="x"),
        lambda: fs.info("bucket/method", version_id="x"),
        lambda: fs.ls("bucket", versions=True),
        lambda: fs.pipe_file("bucket/method", b"", ContentType="text/plain"),
        lambda: fs.put(__file__, "bucket/method", ContentType="text/plain"),
        lambda: fs.get("bucket/method", "/nowhere/x", version_id="x"),
        lambda: fs.copy("bucket/method", "bucket/other", ACL="public-read"),
        lambda: fs.mkdir("bucket/x", acl="private"),
    ]:
        with pytest.raises(TypeError, match="no option"):
            call()
    assert fs.cat("bucket/method") == b"content" and not fs.exists("bucket/other")
    assert fs.ls("bucket", detail=False, refresh=True) and fs.open("bucket/method", cache_type="none").read() == b"content"


def test_functions_document_the_options_they_take():
    for name in firstbyte.__all__:
        function = getattr(firstbyte, name)
        if not inspect.isfunction(function) or "options" not in inspect.signature(function).parameters:
            continue
        text = inspect.getdoc(function)
        missing = [option for option in _options.STORE if option not in text]
        assert not missing, (name, missing)
