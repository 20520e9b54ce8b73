"""Calls that wait for a server: Ctrl-C ends them, an exit does not wait for them, and a fork does
not inherit them.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from serving import AWS, CLEAN, PROGRAM
from waiting import CLIENT_TIMEOUT, WAIT_LIMIT, patience

# Promised time from Ctrl-C to the end of a call in seconds, scaled for a slow machine.
PROMISED = patience(2)


class Stalling(BaseHTTPRequestHandler):
    """Describes the object `/described`, and never answers any other request."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        if self.path != "/described":
            return self.do_GET()
        self.send_response(200)
        for name, value in [("etag", '"one"'), ("accept-ranges", "bytes"), ("content-length", "50000000")]:
            self.send_header(name, value)
        self.end_headers()

    def do_GET(self):
        self.server.asked.set()
        self.server.over.wait()

    do_PUT = do_POST = do_DELETE = do_GET

    def log_message(self, *_):
        pass


@contextmanager
def stalling():
    """Starts a server that stalls. It acts as a web server and as S3."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stalling)
    server.asked, server.over = threading.Event(), threading.Event()
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()


def start(program, url, tmp_path):
    environment = CLEAN | AWS | {"AWS_ENDPOINT_URL": url, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-c", "import firstbyte\n" + program]
    return subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@contextmanager
def running(process):
    try:
        yield process
    finally:
        process.kill()
        process.wait()


SYSTEM = "__import__('firstbyte.filesystem').filesystem.FirstbyteFileSystem()"
CALLS = {
    "open": "firstbyte.open('{url}/silent')",
    "read": "firstbyte.open('{url}/described').read(10)",
    "read everything": "firstbyte.open('{url}/described').read()",
    "read without a cache": "firstbyte.open('{url}/described', cache=False).read(10)",
    "readinto": "firstbyte.open('{url}/described', buffering=0).readinto(bytearray(100))",
    "read_at": "firstbyte.open('{url}/described').read_at(7, 10)",
    "cp": "firstbyte.cp('{url}/described', 'to')",
    "cp of what does not say what it is": "firstbyte.cp('{url}/silent', 'to')",
    "cp of a tree": "firstbyte.cp('s3://bucket/tree/', 'to', recursive=True)",
    "cp to the server": "firstbyte.cp(__file__ if '__file__' in globals() else firstbyte.__file__, 's3://bucket/to')",
    "hydrate": "firstbyte.hydrate('{url}/silent')",
    "hydrate of an object that is described": "firstbyte.hydrate('{url}/described')",
    "hydrate of a tree": "firstbyte.hydrate('s3://bucket/tree/', recursive=True)",
    "the file system's info": SYSTEM + ".info('s3://bucket/key')",
    "its ls": SYSTEM + ".ls('s3://bucket/tree/')",
    "its cat": SYSTEM + ".cat_file('s3://bucket/key')",
    "its cat_ranges of two objects": SYSTEM + ".cat_ranges(['bucket/a', 'bucket/b'], 0, 1)",
    "its rm": SYSTEM + ".rm_file('s3://bucket/key')",
    "its pipe": SYSTEM + ".pipe_file('s3://bucket/key', b'content')",
    "a large write": "f = firstbyte.open('s3://bucket/key', 'wb'); [f.write(bytes(1 << 20)) for _ in range(200)]; f.close()",
    "its open for writing": "f = " + SYSTEM + ".open('s3://bucket/key', 'wb'); [f.write(bytes(1 << 20)) for _ in range(200)]; f.close()",
}


@pytest.mark.parametrize("call", CALLS, ids=lambda name: name.replace(" ", "-"))
def test_ctrl_c_ends_a_call_that_waits_for_a_server_that_stalls(call, tmp_path):
    with stalling() as (server, url):
        program = "try:\n    " + CALLS[call].format(url=url) + "\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
        with running(start(program, url, tmp_path)) as process:
            assert server.asked.wait(WAIT_LIMIT), "the server was not asked"
            os.kill(process.pid, signal.SIGINT)
            began = time.monotonic()
            output = process.communicate(timeout=WAIT_LIMIT)[0]
            assert (process.returncode, output) == (0, "interrupted\n")
            assert time.monotonic() - began < PROMISED
            assert not (tmp_path / "to").is_file()


# Prints the time from the signal's handler to the end of the call.
TIMED = """
import signal, time
def handler(*_):
    global handled
    handled = time.perf_counter()
    raise KeyboardInterrupt
signal.signal(signal.SIGINT, handler)
try:
    CALL
except KeyboardInterrupt:
    print(time.perf_counter() - handled)
"""


@pytest.mark.parametrize("call", CALLS, ids=lambda name: name.replace(" ", "-"))
def test_no_call_waits_for_its_work_once_ctrl_c_is_handled(call, tmp_path):
    def elapsed() -> float:
        with stalling() as (server, url):
            program = TIMED.replace("CALL", CALLS[call].format(url=url))
            with running(start(program, url, tmp_path)) as process:
                assert server.asked.wait(WAIT_LIMIT), "the server was not asked"
                os.kill(process.pid, signal.SIGINT)
                return float(process.communicate(timeout=WAIT_LIMIT)[0])

    # A call whose work is endless would take at least a second every time. A call whose work ends
    # takes some milliseconds, and more only if the machine is busy at that moment.
    times = [elapsed()]
    while min(times) >= patience(0.1) and len(times) < 3:
        times.append(elapsed())
    assert min(times) < patience(0.1), times


def test_what_was_waited_for_when_ctrl_c_came_can_be_asked_for_again(tmp_path):
    program = """
import io, sys
file = firstbyte.open(sys.stdin.readline().strip(), deadline=3)
try:
    file.read(10)
except KeyboardInterrupt:
    print('interrupted', flush=True)
try:
    file.read(10)
except TimeoutError:
    print('timed out')
"""
    with stalling() as (server, url):
        environment = CLEAN | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
        command = [sys.executable, "-c", "import firstbyte\n" + program]
        process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with running(process):
            process.stdin.write(f"{url}/described\n")
            process.stdin.flush()
            assert server.asked.wait(WAIT_LIMIT)
            os.kill(process.pid, signal.SIGINT)
            assert process.communicate(timeout=WAIT_LIMIT)[0] == "interrupted\ntimed out\n"


@pytest.mark.parametrize("daemon", [True, False])
def test_an_exit_with_calls_under_way_in_threads_neither_crashes_nor_hangs(daemon, tmp_path):
    # Python abandons daemon threads when it exits. It waits for other threads, which end when their
    # deadline has passed.
    program = f"""
import threading
file = firstbyte.open('URL/described', deadline=2)
def work(call):
    try:
        call()
    except OSError:
        pass
calls = [lambda: file.read_at(0, 10)] * 6
if {daemon}:
    calls += [lambda: firstbyte.cp('URL/described', 'to'), lambda: firstbyte.hydrate('URL/silent'), lambda: firstbyte.open('URL/silent')]
for call in calls:
    threading.Thread(target=work, args=(call,), daemon={daemon}).start()
import time
# By then most calls are waiting for the server. A call that is not waiting yet is only abandoned
# earlier.
time.sleep(0.5)
print('exits', flush=True)
"""
    with stalling() as (_, url):
        for _ in range(3):
            with running(start(program.replace("URL", url), url, tmp_path)) as process:
                output = process.communicate(timeout=WAIT_LIMIT)[0]
                assert (process.returncode, output) == (0, "exits\n")


def test_a_child_forked_while_calls_wait_works_by_itself_and_ends(tmp_path):
    program = """
import os, threading, warnings
warnings.simplefilter('ignore')
open('local', 'wb').write(b'content')
waiting = firstbyte.open('URL/described', deadline=20)
threads = [threading.Thread(target=lambda: waiting.read_at(0, 10), daemon=True) for _ in range(4)]
[thread.start() for thread in threads]
import time
# By then most calls are waiting for the server. A fork that comes earlier must work too.
time.sleep(0.5)
child = os.fork()
if child == 0:
    with firstbyte.open('local') as file:
        read = file.read()
    firstbyte.cp('local', 'copy')
    print(read == b'content' == open('copy', 'rb').read(), len(firstbyte.listdir('.')) >= 2, flush=True)
    del waiting, file
    os._exit(0)
print(os.waitpid(child, 0)[1], flush=True)
"""
    with stalling() as (_, url), running(start(program.replace("URL", url), url, tmp_path)) as process:
        output = process.communicate(timeout=WAIT_LIMIT)[0]
        assert (process.returncode, output) == (0, "True True\n0\n")


def test_no_signal_is_handled_otherwise_than_before_the_import(place, served, tmp_path):
    """Signal handlers belong to the whole process, including those for faults in mapped files."""
    location, at = place("signals/one", bytes(3 << 20)), tmp_path / "at"
    place("signals/two", b"x")
    at.mkdir()
    environment = CLEAN | AWS | {"AWS_ENDPOINT_URL": served.url, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment |= {"XDG_RUNTIME_DIR": str(tmp_path / "run")}
    (tmp_path / "run").mkdir(mode=0o700)
    program = f"""
import sys, threading
def handled():
    lines = open("/proc/self/status").read().splitlines()
    return [line for line in lines if line.startswith(("SigCgt", "SigIgn", "SigBlk"))]
# The C library installs a handler when the first thread starts, so start one before.
threading.Thread(target=int).start()
before = handled()
import firstbyte, firstbyte.filesystem
def after(step):
    if handled() != before:
        sys.exit(f"{{step}}: {{before}} {{handled()}}")
after("import")
with firstbyte.open({location!r}, cache=True) as file:
    file.read(); file.read_at(5, 10); after("open")
firstbyte.hydrate("s3://bucket/signals/", recursive=True); after("hydrate")
list(firstbyte.read_many([{location!r}])); after("read_many")
firstbyte.cp({location!r}, "copy"); firstbyte.cp("copy", "s3://bucket/signals/back"); after("cp")
with firstbyte.open("s3://bucket/signals/new", "wb") as file:
    file.write(bytes(9 << 20))
after("write")
list(firstbyte.walk(".")); firstbyte.ls("s3://bucket/signals/"); after("ls")
open({str(at)!r} + "/one", "rb").read(); after("read of a mount")
with firstbyte.open({str(at)!r} + "/one", cache=True) as file:
    file.read()
firstbyte.hydrate({str(at)!r} + "/two"); firstbyte.status({str(at)!r} + "/two"); firstbyte.release({str(at)!r} + "/two"); after("mount")
print("the same")
"""
    subprocess.run([PROGRAM, "mount", "s3://bucket/signals", at], env=environment, check=True, capture_output=True, timeout=CLIENT_TIMEOUT)
    try:
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=CLIENT_TIMEOUT)
    finally:
        subprocess.run([PROGRAM, "unmount", "--lazy", at], env=environment, check=True, capture_output=True, timeout=CLIENT_TIMEOUT)
    assert (done.returncode, done.stdout) == (0, "the same\n"), done
