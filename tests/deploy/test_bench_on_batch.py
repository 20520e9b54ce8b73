"""`bench run --on batch`, with jobs submitted to moto, which does not run them. If a test needs a
job to run, it puts `Instance` before moto, which runs the job's command here.
"""

import json
import os
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from conftest import REGION, policy
from serving import CLEAN, TARGET
from test_policies import BATCH, VALUES, actions
from waiting import WAIT_LIMIT, until

PROGRAM = TARGET / "debug" / "firstbyte"


class Instance:
    """An endpoint that passes calls on to moto, and also runs each submitted job.

    `state` replaces the state that moto reports for jobs. `calls` lists the actions, each with its
    body. A job that is `detached` continues until it is terminated as a container is: by a signal
    to its first process.
    """

    def __init__(self, moto, folder: Path):
        self.moto, self.folder, self.state = moto, folder, None
        self.detached, self.job = False, None
        self.calls: list[tuple[str, dict]] = []
        (folder / "bin").mkdir()
        (folder / "bin" / "firstbyte").symlink_to(PROGRAM)

    def run(self, job: dict) -> None:
        env = CLEAN | credentials(self.moto.url) | {"PATH": f"{self.folder}/bin:{os.environ['PATH']}"}
        self.job = subprocess.Popen(["/bin/sh", "-ec", job["parameters"]["command"]], env=env)
        if not self.detached:
            self.job.wait(WAIT_LIMIT)

    def pass_on(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("content-length", 0)))
        action, sent = request.path.rsplit("/", 1)[-1], json.loads(body or b"{}")
        self.calls.append((action, sent))
        call = urllib.request.Request(self.moto.url + request.path, body, dict(request.headers), method="POST")
        try:
            with urllib.request.urlopen(call, timeout=WAIT_LIMIT) as answer:
                status, said = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, said = error.code, error.read()
        if action == "submitjob" and status == 200 and (self.state is None or self.detached):
            self.run(sent)
        if action == "terminatejob" and self.job:
            self.job.terminate()
        if action == "describejobs" and self.state:
            said = json.dumps({"jobs": [{"status": self.state, "statusReason": "Host EC2 terminated"}]}).encode()
        request.send_response(status)
        request.send_header("content-length", str(len(said)))
        request.end_headers()
        request.wfile.write(said)


def credentials(url: str) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": "operator",
        "AWS_SECRET_ACCESS_KEY": "operator",
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL": url,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def prepare(moto) -> None:
    """Makes a queue, a job definition with a parameter for the command, and a bucket for results.
    """
    moto.post("/moto-api/config", b'{"batch": {"use_docker": false}}')
    ec2, batch = moto.client("ec2"), moto.client("batch")
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    group = ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]
    moto.client("iam").create_role(RoleName="r", AssumeRolePolicyDocument="{}")
    moto.client("iam").create_instance_profile(InstanceProfileName="p")
    role = "arn:aws:iam::123456789012:role/r"
    resources = {"type": "EC2", "minvCpus": 0, "maxvCpus": 4, "instanceTypes": ["m6i.xlarge"], "subnets": [subnet]}
    resources |= {"securityGroupIds": [group], "instanceRole": "arn:aws:iam::123456789012:instance-profile/p"}
    given = {"type": "MANAGED", "state": "ENABLED", "computeResources": resources, "serviceRole": role}
    batch.create_compute_environment(computeEnvironmentName="instances", **given)
    order = [{"order": 1, "computeEnvironment": "instances"}]
    batch.create_job_queue(jobQueueName="q", state="ENABLED", priority=1, computeEnvironmentOrder=order)
    properties = {"image": "i", "vcpus": 1, "memory": 128, "command": ["job", "Ref::command"]}
    batch.register_job_definition(jobDefinitionName="d", type="container", containerProperties=properties)
    moto.client("s3").create_bucket(Bucket="results")


@pytest.fixture
def prepared(moto):
    prepare(moto)
    return moto


@pytest.fixture
def instance(prepared, tmp_path):
    instance = Instance(prepared, tmp_path)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            instance.pass_on(self)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    instance.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield instance
    server.shutdown()


def bench(url: str, s3: str, *words, place: str = "q:d", env: dict | None = None) -> subprocess.Popen:
    given = ["--on", f"batch:{place}@{url}", "--results", "s3://results/bench/", *map(str, words)]
    env = CLEAN | credentials(s3) | (env or {})
    return subprocess.Popen([PROGRAM, "bench", "run", *given], env=env, stdout=-1, stderr=-1, text=True)


def ended(process: subprocess.Popen) -> tuple[int, str]:
    _, said = process.communicate(timeout=WAIT_LIMIT)
    return process.returncode, said


def test_a_measurement_comes_back_as_ordinary_results(instance, tmp_path):
    (tmp_path / "big").write_bytes(bytes(1 << 20))
    out = tmp_path / "results.jsonl"
    words = [tmp_path / "big", "--workload", "seq-read", "--rounds", "1", "--job-setup", f"touch {tmp_path}/set-up"]
    words += ["--memory-limit", "300MiB", "--cpus", "2", "--budget", "1USD", "--max-time", "10m", "--bill-as", "none"]
    code, said = ended(bench(instance.url, instance.moto.url, *words, "--out", out))
    assert code == 0, said
    assert "SUCCEEDED" in said and (tmp_path / "set-up").exists()
    runs = [record for line in out.read_text().splitlines() if (record := json.loads(line))["record"] == "run"]
    assert {run["outcome"] for run in runs} == {"ok"} and {run["bytes"] for run in runs} == {1 << 20}
    [sent] = [sent for action, sent in instance.calls if action == "submitjob"]
    needs = {need["type"]: need["value"] for need in sent["containerOverrides"]["resourceRequirements"]}
    assert needs == {"VCPU": "2", "MEMORY": "300"}
    # Ten minutes to measure and five to deliver cost 0.048 USD of the 1 USD, on an m6i.xlarge
    # (0.192 USD per hour).
    assert sent["timeout"] == {"attemptDurationSeconds": 900} and sent["retryStrategy"] == {"attempts": 1}
    assert "--budget 0.95USD" in sent["parameters"]["command"]


def test_moto_alone_runs_nothing_and_that_is_said(prepared):
    """The job is submitted to the queue, but moto does not run it, so its results are missing."""
    code, said = ended(bench(prepared.url, prepared.url, "/mnt/data"))
    assert code == 1 and "succeeded, but left no results at s3://results/bench/firstbyte-bench-" in said, said
    [job] = prepared.client("batch").list_jobs(jobQueue="q", jobStatus="SUCCEEDED")["jobSummaryList"]
    assert job["jobName"].startswith("firstbyte-bench-")


def test_a_job_that_fails_says_why(instance, tmp_path):
    code, said = ended(bench(instance.url, instance.moto.url, tmp_path / "none"))
    # The command ran and failed, although moto reports that the job succeeded.
    assert code == 1 and "left no results" in said and "none: not found" in said, said
    instance.state = "FAILED"
    code, said = ended(bench(instance.url, instance.moto.url, tmp_path / "none"))
    assert code == 1 and "the job failed: Host EC2 terminated" in said, said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_an_interrupt_ends_the_job(instance, number):
    instance.state = "RUNNING"
    process = bench(instance.url, instance.moto.url, "/mnt/data")
    for line in process.stderr:
        if "RUNNING" in line:
            break
    process.send_signal(number)
    assert ended(process)[0] == 130
    [sent] = [sent for action, sent in instance.calls if action == "terminatejob"]
    [job] = instance.moto.client("batch").list_jobs(jobQueue="q", jobStatus="SUCCEEDED")["jobSummaryList"]
    assert sent["jobId"] == job["jobId"]


def test_an_ended_job_delivers_what_it_has_measured(instance, tmp_path):
    (tmp_path / "big").write_bytes(bytes(1 << 20))
    instance.state, instance.detached = "RUNNING", True
    words = [tmp_path / "big", "--workload", "command", "--rounds", "1000"]
    done = tmp_path / "done"
    command = ["--", "sh", "-c", f"sleep 0.05; echo >>{done}; cat {{target}}"]
    process = bench(instance.url, instance.moto.url, *words, *command)
    until("five runs", lambda: done.exists() and done.stat().st_size >= 5)
    process.send_signal(signal.SIGINT)
    code, said = ended(process)
    assert code == 130 and "what the job has measured comes to s3://results/bench/" in said, said
    assert instance.job.wait(WAIT_LIMIT) != 0
    place = said.split("comes to s3://results/")[1].split(" ")[0]
    body = instance.moto.client("s3").get_object(Bucket="results", Key=place)["Body"].read().decode()
    runs = [record for line in body.splitlines() if (record := json.loads(line))["record"] == "run"]
    assert runs and {run["outcome"] for run in runs} == {"ok"}


def test_a_job_that_does_not_start_is_ended(instance):
    instance.state = "RUNNABLE"
    code, said = ended(bench(instance.url, instance.moto.url, "/mnt/data", "--max-time", "1s"))
    assert code == 1 and "has not started after" in said, said
    assert "terminatejob" in [action for action, _ in instance.calls]


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (["--plan", "p.toml"], 2, "a job does not have the files of this machine"),
        (["/mnt", "--out", "/etc/passwd"], 2, "/etc/passwd: exists"),
        (["/mnt", "--budget", "1USD"], 2, "give --max-time too"),
        (["/mnt", "--results", "/tmp"], 2, "give --results s3://BUCKET/PREFIX/"),
        (["/mnt", "--budget", "0.01USD", "--max-time", "1h"], 1, "the instance alone may cost"),
        (["/mnt", "--on", "batch:other:d"], 1, "Job queue other does not exist"),
        (["/mnt", "--on", "batch:q:other"], 1, "no such job definition"),
        (["/mnt", "--on", "batch:q"], 2, "write batch:QUEUE:DEFINITION"),
    ],
)
def test_bad_input_gets_a_line(prepared, words, code, line):
    given = {"--on": f"batch:q:d@{prepared.url}", "--results": "s3://results/"}
    given |= {name: value for name, value in zip(words, words[1:]) if name in given}
    if given["--on"].startswith("batch:") and "@" not in given["--on"] and given["--on"].count(":") > 1:
        given["--on"] += f"@{prepared.url}"
    rest = [word for word in words if word not in given and word not in given.values()]
    env = CLEAN | credentials(prepared.url)
    command = [PROGRAM, "bench", "run", *rest, *(word for pair in given.items() for word in pair)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=WAIT_LIMIT)
    assert done.returncode == code and line in done.stderr and "panicked" not in done.stderr, done.stderr


def test_without_credentials_it_says_so(prepared, tmp_path):
    none = {name: str(tmp_path / "none") for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")}
    none |= {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "HOME": str(tmp_path)}
    code, said = ended(bench(prepared.url, prepared.url, "/mnt", env=none))
    assert code != 0 and "credentials" in said, said


def test_without_any_one_action_it_fails_and_names_it(prepared):
    """moto enforces the policy that deploy/terraform gives to users who measure. Each round leaves
    out one action of the policy.
    """
    document = policy("submit", **VALUES["submit"])
    assert set.union(*map(actions, document["Statement"])) == set(BATCH.values())
    iam = prepared.client("iam")
    iam.create_user(UserName="u")
    key = iam.create_access_key(UserName="u")["AccessKey"]
    env = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}
    words = ["/mnt/data", "--budget", "1USD", "--max-time", "1m"]
    needed = sorted(set(BATCH.values()) - {"batch:TerminateJob"})
    for lacking in [None, *needed]:
        # moto derives the names of these actions from their paths, in lower case. AWS ignores the
        # case.
        granted = [action.lower() for action in BATCH.values() if action != lacking]
        allowed = [*granted, "s3:GetObject", "s3:ListBucket"]
        statement = {"Effect": "Allow", "Action": allowed, "Resource": "*"}
        given = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        iam.put_user_policy(UserName="u", PolicyName="p", PolicyDocument=given)
        with prepared.enforcing():
            code, said = ended(bench(prepared.url, prepared.url, *words, env=env))
        assert code == 1 and (lacking or "left no results").lower() in said.lower(), f"{lacking}: {said}"
