"""nginx in front of `serve`, in the usual configurations: with its own Host and with the client's,
with and without buffers, by HTTP/1.0 and 1.1, and compressing."""

import os
import subprocess
from contextlib import contextmanager
from urllib.parse import urlsplit

import boto3
import pytest
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from conftest import plant, random_bytes
from functions import free_port
from serving import AWS, Served, key_file, serving
from waiting import WAIT_LIMIT, answers, until

PART = 5 << 20
LARGE = random_bytes(61, 2 * PART + 77)
# Host name that clients of the proxy use. It is not the server's name.
PUBLIC = "files.lab.example"

WAYS = {
    "defaults": "",
    "unbuffered": "proxy_buffering off; proxy_request_buffering off; proxy_http_version 1.1;",
    "http-1.0": "proxy_http_version 1.0; proxy_request_buffering off;",
    "gzip": "gzip on; gzip_min_length 1; gzip_proxied any; gzip_types *; proxy_http_version 1.1;",
}


@contextmanager
def nginx(directory, served: Served, settings: str):
    """Starts nginx in front of a server, and yields the address of nginx."""
    port = free_port()
    directory.mkdir(exist_ok=True)
    # If root starts nginx, its workers run as another user by default, who may not write here.
    user = "user root;" if os.geteuid() == 0 else ""
    (directory / "nginx.conf").write_text(f"""
        {user}
        daemon off; pid {directory}/pid; error_log {directory}/error.log; worker_processes 1;
        events {{ }}
        http {{
            access_log off; client_max_body_size 0;
            client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy;
            fastcgi_temp_path {directory}/f; uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s;
            server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass {served.url}; {settings} }} }}
        }}""")
    process = subprocess.Popen(["nginx", "-p", directory, "-c", directory / "nginx.conf"], stderr=subprocess.DEVNULL)
    try:
        until("nginx answers", lambda: answers("127.0.0.1", port))
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(WAIT_LIMIT)


@pytest.fixture(scope="module", params=["open", "keys"])
def options(request, tmp_path_factory):
    """Returns the options for a server, first without keys and then with keys."""
    if request.param == "open":
        return []
    keys = key_file(tmp_path_factory.mktemp("keys") / "keys")
    return ["--auth", str(keys)]


def s3_of(url: str, public: str = ""):
    """Makes a boto3 client that connects to `url` but signs for the host `public`."""
    address = urlsplit(url)
    endpoint = f"http://{public}" if public else url
    settings = Config(signature_version="s3v4", retries={"total_max_attempts": 1}, s3={"addressing_style": "path"})
    s3 = boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=AWS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=AWS["AWS_SECRET_ACCESS_KEY"],
        region_name="us-east-1",
        config=settings,
    )
    if public:
        # The host name is not in DNS. Requests are signed for it, but sent to the address of the
        # proxy.
        def to_proxy(request, **_):
            request.headers["Host"] = public
            request.url = request.url.replace(f"http://{public}", f"http://{address.netloc}", 1)

        s3.meta.events.register("before-send.s3", to_proxy)
    return s3


def uses(s3, tmp_path):
    """Uses the server as programs do: puts, uploads in parts, reads, lists and deletes."""
    s3.put_object(Bucket="data", Key="proxied", Body=b"content", Metadata={"run": "7"})
    found = s3.get_object(Bucket="data", Key="proxied")
    assert (found["Body"].read(), found["Metadata"]) == (b"content", {"run": "7"})
    source, back = tmp_path / "large", tmp_path / "back"
    source.write_bytes(LARGE)
    parts = TransferConfig(multipart_threshold=PART, multipart_chunksize=PART)
    s3.upload_file(str(source), "data", "proxied-parts", Config=parts)
    s3.download_file("data", "proxied-parts", str(back), Config=parts)
    assert back.read_bytes() == LARGE
    keys = [object["Key"] for object in s3.list_objects_v2(Bucket="data", Prefix="proxied")["Contents"]]
    assert keys == ["proxied", "proxied-parts"]
    s3.delete_objects(Bucket="data", Delete={"Objects": [{"Key": key} for key in keys]})


@pytest.mark.parametrize("way", WAYS)
def test_clients_of_s3_work_behind_nginx_that_passes_the_client_s_host(way, options, tmp_path):
    settings = f"proxy_set_header Host $http_host; {WAYS[way]}"
    with serving(plant(tmp_path / "served"), *options) as served, nginx(tmp_path / "nginx", served, settings) as url:
        uses(s3_of(url), tmp_path)


@pytest.mark.parametrize("way", WAYS)
def test_plain_clients_work_behind_nginx_that_passes_its_own_host(way, tmp_path):
    want = random_bytes(1, 20 << 20)
    with serving(plant(tmp_path / "served")) as served, nginx(tmp_path / "nginx", served, WAYS[way]) as url:
        got = subprocess.run(["curl", "-sS", "--fail", "--compressed", f"{url}/data/big.bin"], capture_output=True, check=True)
        assert got.stdout == want
        got = subprocess.run(["curl", "-sS", "--fail", "-r", "1000-1999", f"{url}/data/big.bin"], capture_output=True, check=True)
        assert got.stdout == want[1000:2000]
        for source, content in [("-", LARGE), ("/dev/stdin", LARGE)]:
            subprocess.run(["curl", "-sS", "--fail", "-T", source, f"{url}/data/up"], input=content, check=True)
            assert (served.root / "data" / "up").read_bytes() == content
        listing = subprocess.run(["curl", "-sS", "--fail", "--compressed", f"{url}/data/?format=ndjson"], capture_output=True, check=True)
        assert b'"big.bin"' in listing.stdout


def test_a_public_name_needs_one_option_and_the_refusal_says_which(options, tmp_path):
    settings = "proxy_set_header Host $http_host;"
    with serving(plant(tmp_path / "served"), *options) as served, nginx(tmp_path / "nginx", served, settings) as url:
        refused = subprocess.run(["curl", "-sS", "-H", f"Host: {PUBLIC}", f"{url}/data/"], capture_output=True, text=True)
        assert f"--host-style {PUBLIC}" in refused.stdout
    with (
        serving(plant(tmp_path / "again"), *options, "--host-style", PUBLIC) as served,
        nginx(tmp_path / "nginx", served, settings) as url,
    ):
        uses(s3_of(url, PUBLIC), tmp_path)
