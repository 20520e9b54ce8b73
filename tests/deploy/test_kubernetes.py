"""deploy/kubernetes: the files have the form that Kubernetes accepts, and the commands of their
containers do as the files say. They were not run on Kubernetes.
"""

import os
import subprocess
import urllib.request
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from conftest import DEPLOY
from serving import AWS, CLEAN, PROGRAM, serving
from waiting import WAIT_LIMIT, until

FILES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
# The oldest version that has native sidecars, and a newer version.
VERSIONS = ["1.29", "1.33"]
KEY, SECRET = "app", "not-a-secret"
CONTENT = os.urandom(300_000)


def documents(path: Path) -> list[dict]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def containers(path: Path) -> dict[str, dict]:
    """Returns all containers in a file, by their names."""
    found = {}
    for document in documents(path):
        spec = document.get("spec", {})
        pod = spec if document["kind"] == "Pod" else spec.get("template", {}).get("spec", {})
        for container in [*pod.get("initContainers", []), *pod.get("containers", [])]:
            found[container["name"]] = container | {"volumes": {volume["name"]: volume for volume in pod["volumes"]}}
    return found


def command(container: dict, places: dict[str, str], **variables: str) -> list[str]:
    """Returns the command of a container, with paths and addresses replaced by those of this
    machine.
    """
    words = [PROGRAM, *container["args"]]
    for name, value in [*variables.items()]:
        words = [str(word).replace(f"$({name})", value) for word in words]
    for old, new in places.items():
        words = [str(word).replace(old, new) for word in words]
    return words


@pytest.fixture
def origin(tmp_path):
    """Makes a bucket with two objects."""
    data = tmp_path / "origin" / "bucket" / "run7"
    data.mkdir(parents=True)
    for name in ("a", "b"):
        (data / name).write_bytes(CONTENT)
    with serving(tmp_path / "origin") as served:
        yield served


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_form_is_that_of_kubernetes(path, version):
    for document in documents(path):
        kubernetes_validate.validate(document, version, strict=True)


def test_a_planted_fault_is_found():
    broken = documents(DEPLOY / "kubernetes" / "job.yaml")[0]
    broken["spec"]["completionsMode"] = "Indexed"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, VERSIONS[0], strict=True)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_mounted_volume_is_there_and_each_image_is_to_be_named(path):
    for container in containers(path).values():
        assert {mount["name"] for mount in container["volumeMounts"]} <= set(container["volumes"])
        assert container["image"] in ("IMAGE", "busybox:1.37")
        assert container["securityContext"].get("privileged", False) == (container["name"] == "mount")


@pytest.mark.parametrize("name", ["gateway.yaml", "job.yaml"])
def test_the_user_of_the_image_may_write_to_the_volumes(name):
    workload = next(document for document in documents(DEPLOY / "kubernetes" / name) if "template" in document.get("spec", {}))
    pod = workload["spec"]["template"]["spec"]
    assert any("persistentVolumeClaim" in volume for volume in pod["volumes"])
    user = int((DEPLOY / "Dockerfile").read_text().split("USER ")[1].split(":")[0])
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsUser"] == user


def test_the_gateway_serves_with_the_keys_of_the_secret(origin, tmp_path):
    container = containers(DEPLOY / "kubernetes" / "gateway.yaml")["gateway"]
    (tmp_path / "keys").write_text(f"{KEY} {SECRET} read run7\n")
    places = {"/keys/keys": f"{tmp_path}/keys", "/cache": f"{tmp_path}/cache", "0.0.0.0:8090": "127.0.0.1:0"}
    (tmp_path / "cache").mkdir()
    words = command(container, places)
    env = CLEAN | AWS | {"FIRSTBYTE_ENDPOINT_URL": origin.url}
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True) as gateway:
        try:
            url = gateway.stdout.readline().strip().rstrip("/")
            reader = CLEAN | {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
            read = [PROGRAM, "--endpoint-url", url, "cat", "s3://bucket/run7/a"]
            assert subprocess.run(read, env=reader, capture_output=True, check=True).stdout == CONTENT
            # The request is addressed to the name of the service, as from inside a cluster.
            service = documents(DEPLOY / "kubernetes" / "gateway.yaml")[-1]
            request = urllib.request.Request(url + "/", headers={"Host": f"{service['metadata']['name']}:8090"})
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=WAIT_LIMIT)
            assert refused.value.code == 401
        finally:
            gateway.terminate()
    port = service["spec"]["ports"][0]
    assert container["args"][2].endswith(f":{port['port']}") and container["ports"][0]["name"] == port["targetPort"]


@pytest.mark.needs_root
def test_the_sidecar_mounts_what_the_program_reads(origin, tmp_path):
    container = containers(DEPLOY / "kubernetes" / "mount.yaml")["mount"]
    for name in ("data", "cache"):
        (tmp_path / name).mkdir()
    places = {"/data": f"{tmp_path}/data", "/cache/": f"{tmp_path}/cache/", "0.0.0.0:9090": "127.0.0.1:0"}
    env = CLEAN | AWS | {"FIRSTBYTE_ENDPOINT_URL": origin.url}
    with subprocess.Popen(command(container, places), env=env, stdout=subprocess.DEVNULL) as mount:
        until("the mount", lambda: (tmp_path / "data" / "run7").exists())
        assert (tmp_path / "data" / "run7" / "a").read_bytes() == CONTENT
        mount.terminate()
        assert mount.wait(WAIT_LIMIT) == 0
    assert list((tmp_path / "data").iterdir()) == []
    probe = container["startupProbe"]["httpGet"]
    assert f"--metrics=0.0.0.0:{probe['port']}" in container["args"]


def test_each_pod_of_the_job_copies_its_shard(origin, tmp_path):
    path = DEPLOY / "kubernetes" / "job.yaml"
    [job] = documents(path)
    env = CLEAN | AWS | {"FIRSTBYTE_ENDPOINT_URL": origin.url}
    scratch = tmp_path / "scratch"
    (scratch / "receipts").mkdir(parents=True)
    shards = job["spec"]["completions"]
    plan = ["plan", "s3://bucket/run7", "--shards", str(shards), "--out", f"{scratch}/run7.parquet"]
    subprocess.run([PROGRAM, *plan], env=env, check=True, capture_output=True)
    for index in range(shards):
        variables = {"JOB_COMPLETION_INDEX": str(index)}
        words = command(containers(path)["cp"], {"/scratch": str(scratch)}, **variables)
        subprocess.run(words, env=env | variables, check=True, capture_output=True)
    merge = [PROGRAM, "receipts", "merge", f"{scratch}/run7.parquet", *scratch.glob("receipts/*")]
    subprocess.run(merge, env=env, check=True, capture_output=True)
    assert {name.name: name.read_bytes() for name in (scratch / "run7").iterdir()} == {"a": CONTENT, "b": CONTENT}
