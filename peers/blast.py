"""Makes a nucleotide database from a seed: `blast.py DIRECTORY MEGABYTES`; four bases take a byte.

DIRECTORY gets `db.*` and `queries.fa`. Sequences are random, so results say nothing about biology. But blastn does the
same as with real sequences: it maps every volume and scans all of it from several threads. Queries are pieces of the
database, so that there is something to be found.
"""

import random
import subprocess
import sys
from pathlib import Path

SEED = 21
# Number of bases in one sequence, about as many as in a contig of a bacterial genome.
LENGTH = 100_000
# Translates each random byte to a base.
BASES = bytes(b"ACGT"[value & 3] for value in range(256))
QUERIES = 20
# Maximum size of a volume. A large database gets several volumes, as core_nt has.
VOLUME = "500MB"


def main() -> int:
    directory, megabytes = Path(sys.argv[1]), int(sys.argv[2])
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
        code = maker.wait()
    (directory / "queries.fa").write_bytes(b"".join(queries))
    return code


if __name__ == "__main__":
    sys.exit(main())
