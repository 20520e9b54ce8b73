"""The local host for functions: Python handlers by awslambdaric, and firstbyte's own function here
and under a foreign host."""

import re
import socket
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.error import HTTPError

import pytest
from functions import PYTHON, FunctionError, foreign, hosted
from serving import TARGET
from waiting import WAIT_LIMIT, patience

# Timeout of a Python function in seconds. It is long enough for calls that end by themselves, even
# on a slow machine.
TIMEOUT = round(patience(2))
BOOTSTRAP = TARGET / "debug" / "bootstrap"
HANDLER = '''
import os, socket, time

calls = 0

def handle(event, context):
    global calls
    calls += 1
    if "sleep" in event:
        time.sleep(event["sleep"])
    if "port" in event:
        socket.create_connection(("127.0.0.1", event["port"])).recv(1)
    if "raise" in event:
        raise KeyError(event["raise"])
    if "exit" in event:
        os._exit(event["exit"])
    if "size" in event:
        return "x" * event["size"]
    return {
        "calls": calls, "pid": os.getpid(), "left": context.get_remaining_time_in_millis(),
        "memory": context.memory_limit_in_mb, "name": context.function_name, "arn": context.invoked_function_arn,
        "tmp": os.listdir("/tmp"), "task": os.environ["LAMBDA_TASK_ROOT"], "handler": os.environ["_HANDLER"],
        "echo": event.get("echo"),
    }
'''


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Starts a serverless function written in Python."""
    code = tmp_path_factory.mktemp("code")
    (code / "app.py").write_text(HANDLER)
    with hosted(code, "--handler", "app.handle", "--python", str(PYTHON), "--timeout", f"{TIMEOUT}s") as function:
        yield function


def test_a_python_handler_sees_what_lambda_shows_it(python):
    answer = python.call({"echo": "grüße"})
    assert answer["echo"] == "grüße" and answer["name"] == "firstbyte" and answer["handler"] == "app.handle"
    assert answer["arn"].endswith(":function:firstbyte") and 0 < answer["left"] <= TIMEOUT * 1000
    again = python.call({})
    assert (again["pid"], again["calls"]) == (answer["pid"], answer["calls"] + 1)


def test_an_exception_is_the_error_object_and_the_environment_stays(python):
    before = python.call({})
    with pytest.raises(FunctionError) as raised:
        python.call({"raise": "no such thing"})
    assert raised.value.kind == "KeyError" and "no such thing" in raised.value.message
    assert python.call({})["pid"] == before["pid"]


@pytest.mark.parametrize(
    ("event", "kind", "part"),
    [({"sleep": 600}, "Sandbox.Timedout", f"{TIMEOUT}.00 seconds"), ({"exit": 7}, "Runtime.ExitError", "exit status 7")],
    ids=["timeout", "end"],
)
def test_after_a_timeout_or_an_end_the_next_call_has_a_new_environment(python, event, kind, part):
    before = python.call({})
    with pytest.raises(FunctionError) as raised:
        python.call(event)
    assert raised.value.kind == kind and part in raised.value.message
    after = python.call({})
    assert after["pid"] != before["pid"] and after["calls"] == 1


def test_an_answer_that_is_too_large_is_an_error(python):
    with pytest.raises(FunctionError) as raised:
        python.call({"size": 7 << 20})
    assert raised.value.kind == "Function.ResponseSizeTooLarge"


@contextmanager
def during_a_call(function):
    """Keeps a call running during the block. Yields the future of its answer."""
    with ThreadPoolExecutor(1) as pool, socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(WAIT_LIMIT)
        running = pool.submit(function.call, {"port": listener.getsockname()[1]})
        # From here on, the handler has connected, and waits until the connection is closed.
        with listener.accept()[0]:
            yield running


def test_more_calls_than_environments_are_throttled(tmp_path):
    (tmp_path / "app.py").write_text(HANDLER)
    with hosted(tmp_path, "--handler", "app.handle", "--python", str(PYTHON), "--environments", "1") as function:
        function.call({})
        with during_a_call(function) as running:
            with pytest.raises(HTTPError) as raised:
                urllib.request.urlopen(function.url, b"{}", timeout=WAIT_LIMIT)
            assert raised.value.code == 429 and raised.value.headers["x-amzn-errortype"] == "TooManyRequestsException"
        assert running.result()["calls"] == 2


def test_a_changed_configuration_retires_environments_that_are_idle_or_busy(python):
    idle = python.call({})
    change = urllib.request.Request(
        python.url.replace("/invocations", "/configuration"), b'{"Environment": {"Variables": {"A": "b"}}}', method="PUT"
    )
    urllib.request.urlopen(change, timeout=WAIT_LIMIT).close()
    busy = python.call({})
    assert busy["pid"] != idle["pid"]
    with during_a_call(python) as running:
        urllib.request.urlopen(change, timeout=WAIT_LIMIT).close()
    assert running.result()["pid"] == busy["pid"]
    assert python.call({})["pid"] != busy["pid"]


def test_a_handler_that_cannot_be_imported_is_an_error_of_the_start(tmp_path):
    (tmp_path / "app.py").write_text("import nothing_of_this_name\n")
    with hosted(tmp_path, "--handler", "app.handle", "--python", str(PYTHON)) as function:
        with pytest.raises(FunctionError) as raised:
            function.call({})
    assert raised.value.kind == "Runtime.ImportModuleError"


@pytest.fixture(scope="module")
def ours(served, tmp_path_factory):
    """Starts firstbyte's serverless function on our own host and on a foreign one, which is `cargo
    lambda watch`. Both read from the same server.
    """
    env = {"AWS_ENDPOINT_URL": served.url}
    stage = tmp_path_factory.mktemp("foreign")
    with hosted(BOOTSTRAP, "--env", f"AWS_ENDPOINT_URL={served.url}") as here:
        with foreign(BOOTSTRAP, stage / "project", 2, env | {"FIRSTBYTE_TMP": str(stage)}) as there:
            yield here, there


# Fields whose values differ from call to call or from machine to machine.
OWN = {
    "seconds", "first_byte_seconds", "bytes_per_second", "requests", "retries", "hedged", "peak_memory_bytes",
    "cpu_seconds", "init_seconds", "remaining_seconds", "tmp_bytes", "environment", "environment_started", "invocation",
    "memory_limit_bytes", "destination", "bound_by",
}  # fmt: skip


@pytest.mark.parametrize(
    "event",
    [
        {"action": "download", "source": "s3://data/big.bin"},
        {"action": "open", "source": "s3://data/big.bin", "read": "1%"},
        {"action": "open", "source": "s3://data/big.bin", "read": "all"},
        {"action": "copy-many", "source": "s3://data/deep/"},
        {"action": "list", "source": "s3://data/"},
    ],
    ids=lambda event: f"{event['action']}-{event.get('read', '')}",
)
def test_a_foreign_host_gives_the_same_receipts(ours, event):
    answers = [function.call(event) for function in ours]
    receipts = [{name: value for name, value in answer.items() if name not in OWN} for answer in answers]
    stages = [sorted(receipt.pop("stages")) for receipt in receipts]
    assert receipts[0] == receipts[1] and stages[0] == stages[1]
    assert receipts[0]["bytes"] > 0 or event["action"] == "list"


def test_a_foreign_host_gives_the_same_errors(ours):
    for event in [{"action": "nothing"}, {"action": "download", "source": "s3://data/missing"}]:
        errors = []
        for function in ours:
            with pytest.raises(FunctionError) as raised:
                function.call(event)
            # Request ids differ from call to call.
            errors.append((raised.value.kind, re.sub(r"request id \w+", "request id", raised.value.message)))
        assert errors[0] == errors[1]
