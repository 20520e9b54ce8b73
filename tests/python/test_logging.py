"""Events of the native half in Python's `logging`."""

import subprocess
import sys

from serving import serving

PROGRAM = """
import logging, os, sys
url, where = sys.argv[1:]
logging.basicConfig(level=LEVEL, format="%(name)s %(levelname)s %(message)s")
import firstbyte
options = {"endpoint_url": url, "anonymous": True, "region": "us-east-1"}
try:
    firstbyte.stat("s3://bucket/none", **options)
except FileNotFoundError:
    pass
firstbyte.cp("s3://bucket/data", where, **options)
"""


def run(tmp_path, program: str) -> list[str]:
    (tmp_path / "served" / "bucket").mkdir(parents=True)
    (tmp_path / "served" / "bucket" / "data").write_bytes(b"content")
    with serving(tmp_path / "served") as served:
        done = subprocess.run(
            [sys.executable, "-c", program, served.url, tmp_path / "copy"], capture_output=True, text=True, check=True
        )
    assert (tmp_path / "copy").read_bytes() == b"content"
    return done.stderr.splitlines()


def test_each_request_is_a_record_of_the_logger_with_its_fields(tmp_path):
    program = PROGRAM.replace("LEVEL", "logging.DEBUG").replace(
        "import firstbyte\n",
        "import firstbyte\nlogging.getLogger().handlers[0].addFilter(lambda record: record.name != 'firstbyte.store.request' or "
        "isinstance(record.fields['milliseconds'], float))\n",
    )
    lines = run(tmp_path, program)
    requests = [line for line in lines if line.startswith("firstbyte.store.request DEBUG request ")]
    assert any("status=404" in line and "location=s3://bucket/none" in line and "request_id=" in line for line in requests)
    assert any("method=GET" in line and "bytes=7" in line and "attempt=1" in line for line in requests), lines


def test_a_higher_level_leaves_requests_out_and_no_level_starts_no_thread(tmp_path):
    assert not any("firstbyte.store.request" in line for line in run(tmp_path / "info", PROGRAM.replace("LEVEL", "logging.INFO")))
    silent = PROGRAM.replace("LEVEL", "logging.WARNING") + "import threading; print(threading.enumerate(), file=sys.stderr)"
    lines = run(tmp_path / "silent", silent)
    assert len(lines) == 1 and "firstbyte-log" not in lines[0], lines


def test_a_level_of_a_logger_below_and_a_later_one_are_followed(tmp_path):
    below = PROGRAM.replace("LEVEL", "logging.WARNING").replace(
        "import firstbyte\n", "import firstbyte\nlogging.getLogger('firstbyte.store.request').setLevel(logging.DEBUG)\n"
    )
    assert any("method=GET" in line for line in run(tmp_path / "below", below))
    again = "def again():\n    firstbyte.stat('s3://bucket/data', **options)\n    import time; time.sleep(0.1)\n"
    later = PROGRAM.replace("LEVEL", "logging.INFO") + again + (
        "logging.getLogger().setLevel(logging.DEBUG)\nagain()\n"
        "logging.getLogger().setLevel(logging.WARNING)\nagain()\n"
        "logging.getLogger('firstbyte.store').setLevel(logging.DEBUG)\nagain()\n"
    )
    lines = run(tmp_path / "later", later)
    assert [line.split()[:2] for line in lines if " method=" in line] == [["firstbyte.store.request", "DEBUG"]] * 2, lines


def test_a_child_after_a_fork_logs_by_a_thread_of_its_own(tmp_path):
    forking = PROGRAM.replace("LEVEL", "logging.DEBUG") + (
        "sys.stderr.flush()\nchild = os.fork()\n"
        "if child == 0:\n"
        "    firstbyte.stat('s3://bucket/data', **options)\n"
        "    import threading; worker = firstbyte._logging._worker; firstbyte._logging._end()\n"
        "    print('child', worker.is_alive(), file=sys.stderr, flush=True); os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
    )
    lines = run(tmp_path, forking)
    end = lines.index("child False")
    assert any("s3://bucket/data" in line and "method=HEAD" in line for line in lines[:end]), lines
