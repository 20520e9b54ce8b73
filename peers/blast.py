"""A nucleotide database of any size, made from a seed, and the same search over it wherever it lies.

Sequences are random, which says nothing about biology but makes blastn do what it does with real ones: map every volume and
scan all of it from several threads at once. Queries are pieces of the database, so there is something to be found.
"""

import random
import subprocess
from dataclasses import dataclass
from pathlib import Path

from measure import Failed
from servers import AWS, CLEAN

SEED = 21
# Bases of one sequence: a bacterial genome's contig.
LENGTH = 100_000
# Each byte of randomness is one base.
BASES = bytes(b"ACGT"[value & 3] for value in range(256))
QUERIES = 20
# What a volume holds at most, so that a large database has several, as core_nt has.
VOLUME = "500MB"


@dataclass
class Database:
    """A database in a directory of its own, as `db.*`, with the queries as `queries.fa`."""

    directory: Path
    size: int

    def search(self, below: str) -> list[str]:
        """The search, from the directory above."""
        threads = ["-num_threads", "2", "-outfmt", "6"]
        return ["blastn", "-db", f"{below}/db", "-query", f"{below}/queries.fa", *threads]


def make(directory: Path, megabytes: int) -> Database:
    """Makes a database of about so many megabytes; four bases take a byte."""
    directory.mkdir(parents=True)
    source = random.Random(SEED)
    command = ["makeblastdb", "-in", "-", "-dbtype", "nucl", "-title", "db", "-out", "db", "-max_file_sz", VOLUME]
    queries = []
    with subprocess.Popen(command, cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as maker:
        assert maker.stdin
        for number in range(megabytes * 4_000_000 // LENGTH):
            sequence = source.randbytes(LENGTH).translate(BASES)
            maker.stdin.write(b">seq%d\n%s\n" % (number, sequence))
            if len(queries) < QUERIES:
                queries.append(b">query%d\n%s\n" % (number, sequence[1000:1500]))
        maker.stdin.close()
        if maker.wait() != 0:
            raise Failed("makeblastdb failed")
    (directory / "queries.fa").write_bytes(b"".join(queries))
    return Database(directory, sum(file.stat().st_size for file in directory.iterdir()))


def same(database: Database, tools, bench) -> bool:
    """Whether a search through a cold mount finds what it finds natively."""
    mounted, cache = bench.directory("same"), bench.directory("same-cache")
    mount = tools.ours("mount", "s3://bench", str(mounted), "--cache", str(cache))
    subprocess.run(mount, env=CLEAN | AWS, check=True)
    try:
        found = [
            subprocess.run(database.search(below), cwd=root, stdout=subprocess.PIPE, check=True).stdout
            for root, below in ((mounted, "db"), (database.directory.parent, database.directory.name))
        ]
    finally:
        subprocess.run([str(tools.firstbyte), "unmount", str(mounted)], check=True)
    return bool(found[0]) and found[0] == found[1]
