"""Manifests of very many objects, whose keys are computed: written and read in bounded memory."""

import bisect
import json
import math
import os
import random
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

from data import Failed

MOST_MEMORY = 256 << 20
SHARDS = 64
LAST = "\U0010ffff"
DRAWS = random.Random(18)
SIZES = [int(DRAWS.lognormvariate(math.log(100_000), 1.5)) for _ in range(65_521)]


class Keys:
    """The keys in the bucket, in order. They are computed, not stored."""

    def __init__(self, count: int):
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> str:
        return f"run/d{index // 10_000:05}/object-{index:09}.bin"

    @staticmethod
    def size(index: int) -> int:
        """Returns the size of an object. Sizes are log-normal, with a median of 100 kB."""
        return SIZES[index * 2_654_435_761 % len(SIZES)]


class Bucket(BaseHTTPRequestHandler):
    """Answers ListObjectsV2."""

    protocol_version = "HTTP/1.1"
    keys: Keys

    def log_message(self, *_):
        """Logs nothing."""

    def do_GET(self):
        """Answers with a page of keys. If the request has a delimiter, the page also has the
        directories among the keys.
        """
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = unquote(query.get("continuation-token", "")) or query.get("start-after", "")
        most = int(query.get("max-keys", "1000"))
        at = max(bisect.bisect_right(self.keys, after), bisect.bisect_left(self.keys, prefix))
        end = bisect.bisect_left(self.keys, prefix + LAST)
        rows, last = [], after
        while at < end and len(rows) < most:
            key = self.keys[at]
            cut = key.find(delimiter, len(prefix)) if delimiter else -1
            if cut >= 0:
                last = key[: cut + 1]
                at = bisect.bisect_left(self.keys, last + LAST)
                # A directory that the previous page had is not listed again.
                if not after.startswith(last):
                    rows.append(f"<CommonPrefixes><Prefix>{last}</Prefix></CommonPrefixes>")
                last += LAST
                continue
            rows.append(
                f"<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
                f"<ETag>&quot;{at:032x}&quot;</ETag><Size>{self.keys.size(at)}</Size></Contents>"
            )
            at, last = at + 1, key
        more = at < end
        token = f"<NextContinuationToken>{quote(last, safe='')}</NextContinuationToken>" if more else ""
        body = (
            f'<?xml version="1.0"?><ListBucketResult><Name>big</Name><IsTruncated>{str(more).lower()}</IsTruncated>'
            f"<KeyCount>{len(rows)}</KeyCount>{token}{''.join(rows)}</ListBucketResult>"
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def measured(command: list[str], env: dict[str, str], codes: tuple[int, ...] = (0,)) -> tuple[str, int, float]:
    """Runs a command. Returns its output, its peak resident memory, and its processor time."""
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        out = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in codes:
        raise Failed(f"{command}: exit code {process.returncode}")
    return out, used.ru_maxrss << 10, used.ru_utime + used.ru_stime


def run(firstbyte: Path, stage: Path, env: dict[str, str], objects: int) -> int:
    """Plans `objects` objects, reads one shard, and reads all shards. Returns the number of
    failures.
    """
    handler = type("Counted", (Bucket,), {"keys": Keys(objects)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = {"FIRSTBYTE_ENDPOINT_URL": f"http://127.0.0.1:{server.server_address[1]}"}
    program, manifest, env = str(firstbyte), str(stage / "manifest.parquet"), env | endpoint
    failed = 0
    commands = [
        ("plan", ["--json", "plan", "s3://big/run/", "--shards", str(SHARDS), "--out", manifest], (0,)),
        ("a shard", ["--json", "cp", "--dry-run", "--manifest", manifest, "--shard", f"0/{SHARDS}", str(stage)], (0,)),
        ("all rows", ["--json", "receipts", "merge", manifest], (3,)),
    ]
    for name, words, codes in commands:
        out, memory, seconds = measured([program, *words], env, codes)
        last = json.loads(out.splitlines()[-1])
        failed += memory > MOST_MEMORY
        print(f"  {name}: {memory >> 20} MiB at most, {seconds:.1f} s of processor time", flush=True)
    if last["missing"]["objects"] != objects:
        raise Failed(f"{last['missing']['objects']} rows, not {objects}")
    print(f"  {objects} objects in {Path(manifest).stat().st_size >> 20} MiB", flush=True)
    server.shutdown()
    return failed
