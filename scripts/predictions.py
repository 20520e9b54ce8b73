"""Predicts transfers through links by probed models, and grades the predictions.

    python3 scripts/predictions.py [--program PROGRAM] [--time 20s] [--keep FILE]

Two links slow our own server: one as a store in the region, one as a far one. Each is probed
once, and its model predicts ten transfers: large and small, into directories and into the cache,
cold and half hydrated. Prints what `advise grade` says of all twenty; `--keep` leaves their
receipts. The goals are a median error of at most 10 % and a range that holds 80 %.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINKS = {
    "near": ["--rtt", "30ms", "--per-connection", "20MB", "--rate", "60MB"],
    "far": ["--rtt", "80ms", "--per-connection", "5MB", "--rate", "25MB"],
}
LARGE = {"large-64": 64 << 20, "large-128": 128 << 20, "large-200": 200 << 20}
SMALL = {"few": (60, 50_000), "many": (600, 20_000), "tiny": (1_000, 2_000)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=Path, default=ROOT / "target/debug/firstbyte")
    parser.add_argument("--time", default="20s", help="time of each probe")
    parser.add_argument("--keep", type=Path, help="file for the receipts")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as stage, contextlib.ExitStack() as stack:
        run = Run(args.program.absolute(), Path(stage), args.time, stack)
        receipts = [receipt for name in LINKS for receipt in run.transfers(name)]
        text = "".join(json.dumps(receipt) + "\n" for receipt in receipts)
        place = args.keep or Path(stage) / "receipts.jsonl"
        place.write_text(text)
        print(f"{len(receipts)} receipts", flush=True)
        run.call(["advise", "grade", str(place)])
    return 0


class Run:
    """Holds the server and its links. Runs transfers through the links."""

    def __init__(self, program: Path, stage: Path, time: str, stack: contextlib.ExitStack):
        self.program, self.stage, self.time, self.stack = program, stage, time, stack
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "FIRSTBYTE_"))}
        self.env |= {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_REGION": "us-east-1"}
        bucket = stage / "root/bucket"
        for name, size in LARGE.items():
            bucket.mkdir(parents=True, exist_ok=True)
            (bucket / name).write_bytes(os.urandom(size))
        for name, (count, size) in SMALL.items():
            (bucket / name).mkdir()
            for number in range(count):
                (bucket / name / f"{number:04}").write_bytes(os.urandom(size))
        self.address = self.service("serve", str(stage / "root"), "--listen", "127.0.0.1:0").removeprefix("http://").strip("/")

    def service(self, *words: str) -> str:
        """Starts a verb that prints its address. Returns the address."""
        process = subprocess.Popen([self.program, *words], stdout=subprocess.PIPE, text=True, env=self.env)
        self.stack.callback(process.wait)
        self.stack.callback(process.terminate)
        assert process.stdout is not None
        return process.stdout.readline().strip()

    def call(self, words: list[str], *, json_: bool = False) -> str:
        command = [str(self.program), *(["--json"] if json_ else []), *words]
        done = subprocess.run(command, stdout=subprocess.PIPE if json_ else None, text=True, env=self.env, check=True)
        return done.stdout or ""

    def transfers(self, link: str) -> list[dict]:
        address = self.service("-q", "link", "--to", self.address, "--listen", "127.0.0.1:0", *LINKS[link])
        self.env["FIRSTBYTE_ENDPOINT_URL"] = f"http://{address}"
        model, place = self.stage / f"{link}.toml", self.stage / link
        self.call(["probe", "s3://bucket/", "--time", self.time, "--disk", str(self.stage), "--out", str(model)])
        place.mkdir()
        cache = ["--cache", str(place / "cache")]
        lines = [
            ["cp", "s3://bucket/large-64", str(place / "a")],
            ["cp", "s3://bucket/large-128", str(place / "b")],
            ["cp", "s3://bucket/large-200", str(place / "c")],
            ["cp", "-r", "s3://bucket/few/", str(place / "few")],
            ["cp", "-r", "s3://bucket/many/", str(place / "many")],
            ["sync", "s3://bucket/tiny", str(place / "tiny")],
            ["hydrate", "s3://bucket/large-64", *cache],
            ["hydrate", "s3://bucket/large-128", *cache],
            ["hydrate", "-r", "s3://bucket/many/", *cache],
            # The three runs above have put a part of this bucket into the cache: half hydrated.
            ["hydrate", "-r", "s3://bucket/", *cache],
        ]
        found = []
        for words in lines:
            receipt = json.loads(self.call([*words, "--model", str(model)], json_=True))
            print(f"{link}: {' '.join(words[:2])}: {receipt['seconds']:.2f} s", file=sys.stderr)
            found.append(receipt)
        return found


if __name__ == "__main__":
    sys.exit(main())
