"""Clients over TLS, with a certificate of `openssl req -x509` that they trust explicitly."""

import subprocess

import pytest
from conftest import BIG, BIN, plant, random_bytes
from serving import serving

@pytest.fixture(scope="module")
def secure(tmp_path_factory, certificate):
    root = plant(tmp_path_factory.mktemp("served"))
    with serving(root, "--tls-cert", str(certificate / "chain.pem"), "--tls-key", str(certificate / "key.pem")) as served:
        assert served.url.startswith("https://")
        yield served


def test_aws_cli_copies_up_and_down_over_tls(secure, certificate, tmp_path):
    def aws(*words):
        trust = {"AWS_CA_BUNDLE": str(certificate / "chain.pem")}
        return secure.run(str(BIN / "aws"), "--endpoint-url", secure.url, *words, env=trust)

    assert "big.bin" in aws("s3", "ls", "--recursive", "s3://data/")
    aws("s3", "cp", "s3://data/big.bin", str(tmp_path / "big.bin"))
    assert (tmp_path / "big.bin").read_bytes() == random_bytes(1, BIG)
    (tmp_path / "up").write_bytes(random_bytes(2, BIG))
    aws("s3", "cp", str(tmp_path / "up"), "s3://data/up")
    assert (secure.root / "data" / "up").read_bytes() == random_bytes(2, BIG)


def test_curl_trusts_the_same_certificate_and_reads_ranges(secure, certificate):
    trust = ["--cacert", str(certificate / "chain.pem")]
    part = subprocess.run(
        ["curl", "-sf", *trust, "-r", "1000-1999", f"{secure.url}/data/big.bin"], check=True, capture_output=True
    )
    assert part.stdout == random_bytes(1, BIG)[1000:2000]
    refused = subprocess.run(["curl", "-sf", f"{secure.url}/data/big.bin"], capture_output=True)
    assert refused.returncode == 60, "a certificate that is not known"
