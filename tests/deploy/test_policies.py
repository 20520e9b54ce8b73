"""Policies of deploy/policies: complete for the code's calls, and no wider.

`S3Operation` in crates/store names every operation of S3 that is called, with the actions it needs.
moto enforces the policies as far as it knows the service: it requires an action `HeadBucket` that
AWS does not have, and `DeleteObject` on the bucket, which AWS requires on each object.
"""

import copy
import json
import os
import random
import re
import subprocess

import pytest
from conftest import DEPLOY, REGION, ROOT, policy
from serving import CLEAN, TARGET
from waiting import WAIT_LIMIT

SOURCE = ROOT / "crates" / "store" / "src" / "s3" / "operation.rs"
PAGE = ROOT / "docs" / "reference" / "deploy.md"
BUCKET = "arn:aws:s3:::data"
DIRECTORY_BUCKET = "arn:aws:s3express:us-east-1:111122223333:bucket/data--use1-az4--x-s3"
# Size in bytes that is large enough for three parts.
BIG = 20 << 20
# Actions of `ls s3://`, `mb` and `rb`, which apply to all buckets, and of `ls --versions`. No role
# gets these actions.
UNGRANTED = {"s3:CreateBucket", "s3:DeleteBucket", "s3:ListAllMyBuckets", "s3:ListBucketVersions"}

VALUES = {
    "assume": {"service": "lambda.amazonaws.com"},
    "efs": {"file_system": "arn:aws:elasticfilesystem:::file-system/f", "access_point": "arn:aws:elasticfilesystem:::p"},
    "express-read": {"buckets": [DIRECTORY_BUCKET]},
    "express-write": {"buckets": [DIRECTORY_BUCKET]},
    "function": {"logs": "arn:aws:logs:::log-group:g"},
    "instance": {"logs": "arn:aws:logs:::log-group:g"},
    "measure": {"functions": ["arn:aws:lambda:::function:f"]},
    "read": {"bucket": BUCKET},
    "s3files-client": {"file_system": "arn:aws:s3files:::file-system/f"},
    "s3files-service": {"bucket": BUCKET, "partition": "aws"},
    "submit": {"queue": "arn:aws:batch:r:a:job-queue/q", "definitions": ["arn:aws:batch:r:a:job-definition/d"]},
    "write": {"bucket": BUCKET},
}


def actions(statement: dict) -> set[str]:
    given = statement["Action"]
    return {given} if isinstance(given, str) else set(given)


def called() -> dict[str, set[str]]:
    """Returns the S3 operations in the source, each with the actions that it needs."""
    source = SOURCE.read_text()
    names = re.search(r"enum S3Operation \{\n(.*?)\n\}", source, re.DOTALL)[1]
    needs = dict(re.findall(r"Self::(\w+) => &\[(.*?)\]", source))
    found = {name: set(re.findall(r'"([\w:]+)"', needs[name])) for name in re.findall(r"(\w+),", names)}
    assert len(found) > 10 and all(found.values())
    return found


@pytest.fixture(scope="module")
def rendered() -> dict[str, dict]:
    return {name: policy(name, **values) for name, values in VALUES.items()}


def test_each_policy_is_rendered_here(rendered):
    assert {path.name.removesuffix(".json.tftpl") for path in (DEPLOY / "policies").iterdir()} == set(VALUES)
    for name, document in rendered.items():
        sids = [statement["Sid"] for statement in document["Statement"]]
        assert document["Version"] == "2012-10-17" and len(set(sids)) == len(sids), name


def test_each_call_of_s3_is_allowed_and_nothing_else_is(rendered):
    allowed = set()
    places = {name: [BUCKET, BUCKET + "/*"] for name in ("read", "write")}
    places |= {name: [[DIRECTORY_BUCKET]] for name in ("express-read", "express-write")}
    for name, resources in places.items():
        for statement in rendered[name]["Statement"]:
            assert statement["Resource"] in resources
            allowed |= actions(statement)
    assert allowed | UNGRANTED == set.union(*called().values())


def test_a_reader_of_a_directory_bucket_gets_sessions_that_cannot_write(rendered):
    """For objects in a directory bucket, only one action is needed. A condition of it decides
    whether a session may write.
    """
    for name, mode in (("express-read", "ReadOnly"), ("express-write", None)):
        [statement] = rendered[name]["Statement"]
        condition = {"StringEquals": {"s3express:SessionMode": mode}} if mode else None
        assert actions(statement) == {"s3express:CreateSession"} and statement.get("Condition") == condition


def test_each_call_goes_through_the_list():
    """`Call` requires an operation, which the compiler checks. This test finds requests that are
    built without `Call`. Requests of credential providers are not S3 operations.
    """
    for path in SOURCE.parent.rglob("*.rs"):
        text = path.read_text()
        assert re.findall(r"Call::new\((?!S3Operation::|operation\b)\w+", text) == [], path
        if path.name not in ("mod.rs", "sign.rs", "service.rs", "provider_client.rs"):
            assert not re.search(r"\bRequest \{", text), f"{path}: a request beside `Call`"


# Calls of the API of AWS Lambda, by method and end of the path, each with its action.
LAMBDA = {
    ("Get", "configuration"): "lambda:GetFunctionConfiguration",
    ("Post", "invocations"): "lambda:InvokeFunction",
    ("Put", "configuration"): "lambda:UpdateFunctionConfiguration",
}
PATH_AND_METHOD = re.compile(r'format!\("\{FUNCTIONS_PATH\}/\{\}/(\w+)".*?ServiceMethod::(\w+)', re.DOTALL)
# Calls of the API of AWS Batch, by the end of the path, each with its action.
BATCH = {
    "describecomputeenvironments": "batch:DescribeComputeEnvironments",
    "describejobdefinitions": "batch:DescribeJobDefinitions",
    "describejobqueues": "batch:DescribeJobQueues",
    "describejobs": "batch:DescribeJobs",
    "submitjob": "batch:SubmitJob",
    "terminatejob": "batch:TerminateJob",
}
BATCH_PATH = re.compile(r'self\.post\("(\w+)"|"/v1/(\w+)"')


def test_each_call_of_another_service_is_allowed(rendered):
    """Calls of these services are made by `Api`. The test fails if a file calls another service."""
    allowed = {name: set.union(*map(actions, rendered[name]["Statement"])) for name in ("measure", "submit")}
    assert allowed == {"measure": set(LAMBDA.values()), "submit": set(BATCH.values())}
    services = set()
    for path in (ROOT / "crates").rglob("src/**/*.rs"):
        text = path.read_text()
        if "ServiceRequest {" in text and path.parent != SOURCE.parent:
            assert path.name == "aws.rs", f"{path}: a call beside `Api`"
        for service in re.findall(r'Api::new\(\s*"(\w+)"', text):
            services.add(service)
            if service == "lambda":
                found, known = {(method, end) for end, method in PATH_AND_METHOD.findall(text)}, set(LAMBDA)
            else:
                found, known = {"".join(ends) for ends in BATCH_PATH.findall(text)}, set(BATCH)
            assert found == known, f"{path}: calls that no policy allows, or none that it need allow"
    assert services == {"batch", "lambda"}, "no policy here allows another service"


def test_the_page_has_the_same_actions():
    rows = re.findall(r"^\| (\w+) \| ((?:`s3(?:express)?:\w+`(?:, )?)+) \|", PAGE.read_text(), re.MULTILINE)
    assert {name: set(re.findall(r"s3\w*:\w+", needs)) for name, needs in rows} == called()
    others = set(re.findall(r"^\| \w+ \| `((?:batch|lambda):\w+)` \|", PAGE.read_text(), re.MULTILINE))
    assert others == {*LAMBDA.values(), *BATCH.values()}


def test_wildcards_are_where_aws_has_no_narrower_resource(rendered):
    wide = {
        (name, statement["Sid"])
        for name, document in rendered.items()
        for statement in document["Statement"]
        if statement.get("Resource") == "*"
    }
    assert wide == {("function", "JoinNetwork"), ("instance", "BeInstance"), ("submit", "FollowJobs")}
    for name, document in rendered.items():
        for statement in document["Statement"]:
            # Only the list that the service itself documents for its role has wildcards.
            assert name == "s3files-service" or not any("*" in action for action in actions(statement)), name


class User:
    """A user in moto who has a policy and runs `firstbyte`."""

    def __init__(self, moto, document: dict):
        iam = moto.client("iam")
        iam.create_user(UserName="job")
        iam.put_user_policy(UserName="job", PolicyName="p", PolicyDocument=json.dumps(document))
        key = iam.create_access_key(UserName="job")["AccessKey"]
        self.env = CLEAN | {
            "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL": moto.url,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def run(self, *words) -> subprocess.CompletedProcess:
        return subprocess.run(
            [TARGET / "debug" / "firstbyte", *map(str, words)], env=self.env, capture_output=True, text=True, timeout=WAIT_LIMIT
        )


def plant(moto) -> None:
    """Makes, or restores, an object to copy, one to delete, and an upload to abort."""
    s3 = moto.client("s3")
    s3.put_object(Bucket="data", Key="tree/gone", Body=b"gone")
    s3.delete_object(Bucket="data", Key="tree/new")
    s3.create_multipart_upload(Bucket="data", Key="unfinished")


@pytest.fixture
def moto_with_data(moto, tmp_path):
    """Makes a bucket with versions, with an object and an unfinished upload, and local files."""
    s3 = moto.client("s3")
    s3.create_bucket(Bucket="data")
    s3.put_bucket_versioning(Bucket="data", VersioningConfiguration={"Status": "Enabled"})
    s3.put_object(Bucket="data", Key="small", Body=b"small")
    plant(moto)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "new").write_bytes(b"new")
    (tmp_path / "big").write_bytes(random.Random(1).randbytes(BIG))
    return moto


# Verbs that a user runs, each with the statements without which the verb must fail.
VERBS = {
    "ls": (lambda at: ["ls", "s3://data/"], {"ListObjects"}),
    "stat": (lambda at: ["stat", "s3://data/small"], {"ReadObjects"}),
    "cat": (lambda at: ["cat", "s3://data/small"], {"ReadObjects"}),
    "cp down": (lambda at: ["cp", "s3://data/small", at / "down"], {"ReadObjects"}),
    "cp up": (lambda at: ["cp", at / "tree" / "new", "s3://data/new"], {"WriteObjects"}),
    "cp up in parts": (lambda at: ["cp", at / "big", "s3://data/big"], {"WriteObjects"}),
    "cp within": (lambda at: ["cp", "s3://data/small", "s3://data/copy"], {"ReadObjects", "WriteObjects"}),
    "cp --abort-stale": (lambda at: ["cp", "--abort-stale=0s", "s3://data"], {"FindStaleUploads", "WriteObjects"}),
    "sync --delete": (
        lambda at: ["sync", "--delete", f"{at}/tree/", "s3://data/tree/"],
        {"ListObjects", "WriteObjects", "DeleteObjects"},
    ),
}


def whole(rendered) -> dict:
    statements = copy.deepcopy([*rendered["read"]["Statement"], *rendered["write"]["Statement"]])
    # moto requires this action on the bucket.
    [deletes] = [statement for statement in statements if statement["Sid"] == "DeleteObjects"]
    deletes["Resource"] = [BUCKET, deletes["Resource"]]
    return {"Version": "2012-10-17", "Statement": statements}


def test_the_verbs_work_under_the_policies(moto_with_data, rendered, tmp_path):
    user = User(moto_with_data, whole(rendered))
    with moto_with_data.enforcing():
        for verb, (words, _) in VERBS.items():
            done = user.run(*words(tmp_path))
            assert done.returncode == 0, f"{verb}: {done.stderr}"
    s3 = moto_with_data.client("s3")
    assert s3.get_object(Bucket="data", Key="big")["Body"].read() == (tmp_path / "big").read_bytes()
    listed = {item["Key"] for item in s3.list_objects_v2(Bucket="data")["Contents"]}
    assert listed == {"small", "copy", "new", "big", "tree/new"}
    assert "Uploads" not in s3.list_multipart_uploads(Bucket="data")


def test_without_any_one_statement_its_verbs_fail_and_name_the_action(moto_with_data, rendered, tmp_path):
    document = whole(rendered)
    sids = {statement["Sid"] for statement in document["Statement"]}
    assert sids == set.union(*(needs for _, needs in VERBS.values())), "a statement that no verb needs"
    for sid in sorted(sids):
        lacking = copy.deepcopy(document)
        removed = next(statement for statement in lacking["Statement"] if statement["Sid"] == sid)
        lacking["Statement"].remove(removed)
        plant(moto_with_data)
        user = User(moto_with_data, lacking)
        with moto_with_data.enforcing():
            for verb, (words, needs) in VERBS.items():
                if sid not in needs:
                    continue
                done = user.run(*words(tmp_path))
                assert done.returncode != 0, f"{verb} works without {sid}"
                named = set(re.findall(r"s3:\w+", done.stderr))
                assert named & actions(removed), f"{verb} without {sid}: {done.stderr}"
        iam = moto_with_data.client("iam")
        for key in iam.list_access_keys(UserName="job")["AccessKeyMetadata"]:
            iam.delete_access_key(UserName="job", AccessKeyId=key["AccessKeyId"])
        iam.delete_user_policy(UserName="job", PolicyName="p")
        iam.delete_user(UserName="job")
