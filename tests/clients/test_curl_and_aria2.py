"""Plain HTTP clients: curl and aria2c."""

import hashlib
import json

from conftest import BIG, random_bytes


def test_curl_downloads_the_whole_object(served, tmp_path):
    served.run("curl", "-sfo", str(tmp_path / "out"), f"{served.url}/data/big.bin")
    assert (tmp_path / "out").read_bytes() == random_bytes(1, BIG)


def test_curl_reads_a_range_and_a_suffix(served, tmp_path):
    want = random_bytes(1, BIG)
    for name, spec, part in [("range", "1000-1999", want[1000:2000]), ("suffix", "-500", want[-500:])]:
        served.run("curl", "-sfo", str(tmp_path / name), "-r", spec, f"{served.url}/data/big.bin")
        assert (tmp_path / name).read_bytes() == part


def test_curl_resumes_a_partial_download(served, tmp_path):
    out = tmp_path / "out"
    out.write_bytes(random_bytes(1, BIG)[: BIG // 3])
    served.run("curl", "-sf", "-C", "-", "-o", str(out), f"{served.url}/data/big.bin")
    assert out.read_bytes() == random_bytes(1, BIG)


def test_curl_gets_304_for_the_etag_it_has_and_412_for_one_it_has_not(served):
    url = f"{served.url}/data/small-00"
    head = served.run("curl", "-sfI", url).lower()
    etag = next(line.split(": ", 1)[1] for line in head.splitlines() if line.startswith("etag"))
    code = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}"]
    assert served.run(*code, "-H", f"If-None-Match: {etag}", url) == "304"
    assert served.run(*code, "-H", 'If-Match: "other"', url) == "412"
    assert served.run(*code, "-r", f"{1 << 40}-", url) == "416"
    assert served.run(*code, f"{served.url}/data/absent") == "404"


def test_curl_gets_a_page_by_default_and_json_on_request(served):
    page = served.run("curl", "-sf", "-H", "Accept: text/html", f"{served.url}/data/")
    assert "<html" in page.lower() and "big.bin" in page
    rows = served.run("curl", "-sf", "-H", "Accept: application/json", f"{served.url}/data/")
    assert "small-00" in json.dumps(json.loads(rows))


def test_curl_uploads_by_put_and_reads_it_back(served, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(random_bytes(7, 3 << 20))
    served.run("curl", "-sf", "-T", str(source), f"{served.url}/data/from-curl.bin")
    assert (served.root / "data" / "from-curl.bin").read_bytes() == source.read_bytes()


def test_aria2_downloads_in_eight_connections(served, tmp_path):
    digest = hashlib.sha256(random_bytes(1, BIG)).hexdigest()
    served.run(
        "aria2c", "-q", "-x8", "-s8", "-k1M", f"--checksum=sha-256={digest}", "-d", str(tmp_path),
        f"{served.url}/data/big.bin",
    )  # fmt: skip
    assert (tmp_path / "big.bin").read_bytes() == random_bytes(1, BIG)
