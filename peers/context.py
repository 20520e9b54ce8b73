"""The bench as rows see it: a stage, servers, and the comparisons that need more than a list of contenders."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import crowd
import data
import listing
from measure import Contender, Failed, Goal, Series, alternate, run_once
from servers import AWS, CLEAN, Server, Servers
from tools import AWS_CLI, HERE, TUNED, Tools


@dataclass
class Verdict:
    """A figure against its goal."""

    what: str
    value: str
    goal: str
    met: bool


@dataclass
class Result:
    """What a row found."""

    row: str
    title: str
    series: list[Series] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    # Lines of a table of its own, where contenders and times do not say it.
    table: list[str] = field(default_factory=list)


class Bench:
    """One row's surroundings; leaving the context ends its servers and removes its files."""

    def __init__(self, firstbyte: Path, result: Result, pairs: int, seconds: float):
        self.firstbyte, self.result = firstbyte, result
        self.pairs, self.seconds = pairs, seconds
        self.stage = Path(tempfile.mkdtemp(prefix="firstbyte-bench-", dir="/dev/shm"))
        self.stages = [self.stage]
        self.servers = Servers(self.stage, firstbyte)

    def __enter__(self) -> "Bench":
        return self

    def __exit__(self, *_: object) -> None:
        self.servers.close()
        for stage in self.stages:
            shutil.rmtree(stage, ignore_errors=True)

    def directory(self, name: str) -> Path:
        """A directory on the stage, made if need be."""
        path = self.stage / name
        path.mkdir(exist_ok=True)
        return path

    def disk(self) -> Path:
        """A second stage, on the file system of the usual temporary directory."""
        self.stages.append(Path(tempfile.mkdtemp(prefix="firstbyte-bench-", dir=os.environ.get("TMPDIR", "/var/tmp"))))
        return self.stages[-1]

    # -- comparing ---------------------------------------------------------------------------------------------------

    def compare(
        self,
        contenders: list[Contender],
        goals: list[Goal],
        check: Callable[[Contender, Path], None],
        stage: Path | None = None,
        pairs: int | None = None,
        warm: list[str] | None = None,
    ) -> list[Series]:
        """Runs the contenders alternately and holds our median, the first's, against each goal; `warm` before each run."""
        series = alternate(contenders, stage or self.stage, check, pairs or self.pairs, self.seconds, warm, keep=stage is not None)
        self.result.series += series
        by_name = {s.name: s for s in series if s.samples}
        for goal in goals:
            if contenders[0].name in by_name and goal.peer in by_name:
                ratio = by_name[contenders[0].name].median() / by_name[goal.peer].median()
                self.verdict(f"time / {goal.peer}", f"{ratio:.2f}x", f"<= {goal.most:.2f}x", ratio <= goal.most)
            else:
                self.verdict(f"time / {goal.peer}", "not measured", f"<= {goal.most:.2f}x", False)
        return series

    def verdict(self, what: str, value: str, goal: str, met: bool) -> None:
        self.result.verdicts.append(Verdict(what, value, goal, met))

    def against_nginx(self, command: Callable[[Server], list[str]]) -> None:
        """The same client against nginx and against `serve`, over the same file."""
        root = self.directory("root")
        (root / "data").mkdir()
        data.big(root / "data" / "big.bin", 1 << 30)
        ours, nginx = command(self.servers.serve(root, "--write")), command(self.servers.nginx(root))
        contenders = [Contender("firstbyte serve", lambda d: ours), Contender("nginx", lambda d: nginx)]
        self.compare(contenders, [Goal("nginx", 1.05)], data.unchecked)

    # -- S3 ----------------------------------------------------------------------------------------------------------

    def minio(self, certificates: Path | None = None) -> Tools:
        """A MinIO with the bucket `bench`, and the tools pointed at it."""
        server = self.servers.minio(self.directory("minio"), certificates)
        tools = Tools(self.firstbyte, self.stage, server, ca=certificates / "ca.pem" if certificates else None)
        tools.make_bucket()
        return tools

    def minio_with_big(self, size: int, certificates: Path | None = None) -> tuple[Tools, Path]:
        """MinIO holding one object `big.bin`, and the file it came from."""
        tools, file = self.minio(certificates), data.big(self.stage / "big.bin", size)
        tools.do("cp", str(file), "s3://bench/big.bin")
        return tools, file

    def minio_with_small(self, count: int) -> tuple[Tools, Path]:
        """MinIO holding `small/`, and the directory it came from."""
        tools, files = self.minio(), data.small(self.stage / "small", count)
        tools.do("cp", f"{files}/", "s3://bench/small/")
        return tools, files

    def uploaded(self, tools: Tools, original: Path) -> Callable[[Contender, Path], None]:
        """A check that fetches what a run uploaded, compares it, and deletes it."""
        same = data.Same(original)

        def check(contender: Contender, destination: Path) -> None:
            back = destination / "back"
            back.mkdir()
            prefix = f"s3://bench/up/{destination.name}/*"
            tools.do("cp", prefix, f"{back}/")
            same(contender, back)
            tools.do("rm", prefix)

        return check

    # -- memory ------------------------------------------------------------------------------------------------------

    def peak_of_sparse(self, stage: Path, gib: int, most: int) -> None:
        """Peak memory of our copy of a sparse file of `gib` GiB from `serve` to disk."""
        if shutil.disk_usage(stage).free < (gib + 5) << 30:
            self.result.notes.append(f"{gib} GiB: not run, the disk has too little room")
            return
        root = stage / f"sparse-{gib}"
        root.mkdir()
        with open(root / "sparse.bin", "wb") as file:
            file.truncate(gib << 30)
        serve = self.servers.serve(root)
        ours = Contender("cp", lambda d: [str(self.firstbyte), "-q", "cp", f"{serve.url}/sparse.bin", f"{d}/"])
        destination = stage / "copy"
        destination.mkdir()
        try:
            sample = run_once(ours, destination)
            length = (destination / "sparse.bin").stat().st_size
            met = sample.peak_bytes <= most and length == gib << 30
            value = f"{sample.peak_bytes / 1e6:.0f} MB ({sample.seconds:.0f} s; serve {serve.peak_bytes() / 1e6:.0f} MB)"
            self.verdict(f"peak memory, {gib} GiB", value, f"<= {most >> 20} MiB", met)
        except Failed as error:
            self.verdict(f"peak memory, {gib} GiB", str(error), f"<= {most >> 20} MiB", False)
        finally:
            shutil.rmtree(destination, ignore_errors=True)

    # -- behind the link ---------------------------------------------------------------------------------------------

    def linked(self, tools: Tools, preset: str, *flags: str) -> Tools:
        """The same tools through a link of that preset, tuned for it."""
        link = self.servers.link(tools.server, "--preset", preset, *flags)
        return replace(tools, server=link, tuning=TUNED, workers=256)

    def behind_link_big(self, preset: str, size: int, rate: int) -> None:
        """One large object: how much of the link's rate we reach at default flags."""
        tools, file = self.minio_with_big(size)
        series = self.compare(self.linked(tools, preset).download("big.bin"), [], data.Same(file))
        if series[0].samples:
            share = size / series[0].median() / rate
            self.verdict("share of the link's rate", f"{share:.2f}", ">= 0.90", share >= 0.90)

    def behind_link_small(self, preset: str, seconds: float | None) -> None:
        """Many small objects: against the best tuned peer, and in absolute time where a goal names one."""
        tools, files = self.minio_with_small(1000)
        series = self.compare(self.linked(tools, preset).download_many("small"), [], data.Same(files))
        peers = [s for s in series[1:] if s.samples]
        if not series[0].samples or not peers:
            return
        best = min(peers, key=Series.median)
        ratio = series[0].median() / best.median()
        self.verdict(f"time / {best.name}, the best", f"{ratio:.2f}x", "<= 0.80x", ratio <= 0.80)
        if seconds:
            self.verdict("time", f"{series[0].median():.2f} s", f"<= {seconds:.1f} s", series[0].median() <= seconds)

    def stalls(self, preset: str, size: int, most: float, reread: float) -> None:
        """Our copy behind a clean link and behind one that stalls, by turns; and what was fetched twice."""
        tools, file = self.minio_with_big(size)
        clean = self.linked(tools, preset).download("big.bin")[0]
        stalling = self.linked(tools, preset, "--stall", "2%:5s", "--seed", "7")
        stalled = replace(stalling.download("big.bin")[0], name="firstbyte, stalled")
        series = self.compare([stalled, replace(clean, name="firstbyte, clean")], [Goal("firstbyte, clean", most)], data.Same(file))
        # The link also carried the unmeasured first run.
        wanted = size * (len(series[0].samples) + 1)
        again = self.servers.end_link(stalling.server)["bytes_to_client"] / wanted - 1
        self.verdict("bytes fetched twice", f"{again:.1%}", f"<= {reread:.0%}", again <= reread)

    def behind_link_list(self, preset: str, count: int, goals: list[Goal]) -> None:
        """Listing very many keys; then once more while others come and go, every line compared."""
        root = self.directory("root")
        keys = [f"run-{number % 7}/plate-{number % 83:03}/image_{number:06}.tif" for number in range(count)]
        listing.plant(root / "bench", keys)
        tools = self.linked(Tools(self.firstbyte, self.stage, self.servers.serve(root, "--write")), preset)
        aws = [AWS_CLI, "--endpoint-url", tools.server.url, "s3", "ls", "--recursive", "s3://bench/"]
        self.compare(
            [
                Contender("firstbyte ls -R", lambda d: tools.ours("ls", "-R", "s3://bench/"), AWS),
                Contender("s5cmd ls", lambda d: tools.s5("ls", "s3://bench/*"), AWS),
                Contender("aws s3 ls --recursive", lambda d: aws, tools.aws_env()),
            ],
            goals,
            data.unchecked,
        )
        with listing.coming_and_going(root / "bench", keys, 1000) as guests:
            ours = tools.ours("ls", "-R", "-l", "--format", "ndjson", "s3://bench/")
            shown = subprocess.run(ours, env=CLEAN | AWS, capture_output=True, text=True, check=True).stdout
        wrong = listing.mistakes(shown, keys, guests)
        self.verdict("keys missing or doubled while 1,000 come and go", str(wrong), "0", wrong == 0)

    # -- the rest ----------------------------------------------------------------------------------------------------

    def sync_unchanged(self, count: int, most: float) -> None:
        """Our sync where nothing changed, against a listing by the barest client."""
        root = self.directory("root")
        (root / "bench").mkdir()
        for number in range(count):
            (root / "bench" / f"{number % 100:02}-{number:06}").write_bytes(b"%d" % number)
        tools = Tools(self.firstbyte, self.stage, self.servers.serve(root, "--write"))
        copy = self.stage / "copy"
        first = subprocess.run(tools.ours("sync", "s3://bench/", f"{copy}/"), env=CLEAN | AWS, capture_output=True)
        if first.returncode != 0:
            raise Failed(first.stderr.decode().strip()[-200:])
        listing = [sys.executable, str(HERE / "list_keys.py"), tools.server.url, str(count)]
        self.compare(
            [
                Contender("firstbyte sync", lambda d: tools.ours("sync", "s3://bench/", f"{copy}/"), AWS),
                Contender("listing alone", lambda d: listing, AWS),
                Contender("s5cmd sync", lambda d: tools.s5("sync", "s3://bench/*", f"{copy}/"), AWS),
                Contender("s5cmd ls", lambda d: tools.s5("ls", "s3://bench/*"), AWS),
            ],
            [Goal("listing alone", most)],
            data.unchecked,
        )
        receipt = subprocess.run(
            [*tools.ours("--json", "sync", "s3://bench/", f"{copy}/")], env=CLEAN | AWS, capture_output=True, text=True
        )
        self.result.notes.append(f"receipt of one more run: `{receipt.stdout.strip()[:400]}`")

    def many_clients(self, clients: int, size: int) -> None:
        """A crowd starts together while others hold half-sent requests open; every byte is compared."""
        file = data.big(self.directory("source") / "big.bin", size)
        rivals = {"firstbyte serve": self.servers.serve(file.parent), "nginx": self.servers.nginx(file.parent)}
        for name, server in rivals.items():
            outcome = crowd.run(server.port, "/big.bin", file.read_bytes(), clients)
            peak = server.peak_bytes()
            self.result.notes.append(f"{name}: {outcome}; peak of its main process {peak / 1e6:.0f} MB")
            if name.startswith("firstbyte"):
                self.verdict("errors", str(outcome.errors), "0", outcome.errors == 0)
                self.verdict("slowest / median", f"{outcome.unfairness:.2f}x", "<= 2x", outcome.unfairness <= 2)
                self.verdict("resident memory of serve", f"{peak / 1e6:.0f} MB", "<= 64 MB", peak <= 64e6)
