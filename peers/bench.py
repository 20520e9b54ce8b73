"""firstbyte beside its peers: `make bench`, or `make bench ROWS="minio-big first-byte"`.

Starts real servers on loopback, runs each tool as users do, by turns, and writes docs/benchmarks.md. Reads: rows.py for
what is compared, tools.py for how each tool is told, measure.py for how it is timed.
"""

import argparse
import pickle
import signal
import sys
from pathlib import Path

import report
from context import Bench, Result
from measure import Failed
from rows import ROWS, name_of

HERE = Path(__file__).resolve().parent


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--firstbyte", type=Path, required=True, help="the binary to measure")
    parser.add_argument("--rows", nargs="*", metavar="ROW", help=f"only these: {', '.join(map(name_of, ROWS))}")
    parser.add_argument("--pairs", type=int, default=5, help="measured runs of each contender [5]")
    parser.add_argument("--seconds", type=float, default=150, help="after this long a row ends at 3 runs [150]")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="where results.jsonl goes")
    parser.add_argument("--page", type=Path, default=HERE.parent / "docs" / "benchmarks.md")
    chosen = parser.parse_args()
    if unknown := set(chosen.rows or []) - set(map(name_of, ROWS)):
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    chosen.firstbyte = chosen.firstbyte.resolve()
    return chosen


def main() -> int:
    # Ended by a signal, the servers are still to be stopped and the stage, which is memory, to be freed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    chosen = arguments()
    chosen.out.mkdir(exist_ok=True)
    # Rows measured earlier stay on the page, so that one row can be run again by itself.
    kept = chosen.out / "rows.pickle"
    results: dict[str, Result] = pickle.loads(kept.read_bytes()) if kept.exists() else {}
    for row in ROWS:
        name = name_of(row)
        if chosen.rows and name not in chosen.rows:
            continue
        result = Result(name, row.__doc__)
        print(f"== {name}: {row.__doc__}", flush=True)
        with Bench(chosen.firstbyte, result, chosen.pairs, chosen.seconds) as bench:
            try:
                row(bench)
            except (Failed, RuntimeError, OSError) as error:
                result.notes.append(f"stopped: {error}")
        print(report.section(result), flush=True)
        results[name] = result
        kept.write_bytes(pickle.dumps(results))
        ordered = [results[n] for n in map(name_of, ROWS) if n in results]
        (chosen.out / "results.jsonl").write_text("".join(map(report.lines_of, ordered)))
        chosen.page.write_text(report.page(ordered, chosen.firstbyte))
    verdicts = [v for r in results.values() for v in r.verdicts]
    print(f"{sum(v.met for v in verdicts)} of {len(verdicts)} goals met; see {chosen.page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
