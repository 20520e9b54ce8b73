"""The table of S3 operations in docs/reference/serve.md against the code and a server."""

import re
import urllib.request

import pytest
from botocore.exceptions import ClientError
from conftest import client
from serving import ROOT
from waiting import WAIT_LIMIT

ROWS = dict(re.findall(r"^\| `(\w+)` \| (supported|private bucket|NotImplemented) \|", (ROOT / "docs/reference/serve.md").read_text(), re.M))
# Browsers post forms. boto3 cannot post one; it only makes the fields.
FORM = "PostObject"


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("objects_v2", "objects_v2")


def answered_in_code() -> set[str]:
    """Returns the operations that our code answers. All others are answered with NotImplemented."""
    code = (ROOT / "crates/serve/src/s3/operations.rs").read_text()
    table = code[code.index("\noperations! {") :]
    return set(re.findall(r"^    (\w+):\s+\w+Input =>", table, re.M))


def filled(shape):
    """Returns the smallest valid value of this shape."""
    match shape.type_name:
        case "structure":
            return {name: filled(shape.members[name]) for name in shape.required_members} | {
                # A union needs exactly one member, so the first one is used.
                name: filled(shape.members[name])
                for name in list(shape.members)[:1]
                if getattr(shape, "is_tagged_union", False)
            }
        case "list":
            return [filled(shape.member)]
        case "map":
            return {}
        case "string":
            return shape.enum[0] if shape.enum else "x"
        case "integer" | "long":
            return 1
        case "boolean":
            return False
        case "timestamp":
            return 0
        case _:
            return b""


@pytest.fixture(scope="module")
def s3(served):
    s3 = client(served, inject_host_prefix=False, parameter_validation=False)
    s3.create_bucket(Bucket="operations")
    return s3


def refusal(s3, operation: str) -> str | None:
    """Makes a call with as few arguments as possible. Returns the error code if it is refused;
    `None` if it succeeds.
    """
    model = s3.meta.service_model.operation_model(operation)
    arguments = filled(model.input_shape) if model.input_shape else {}
    members = model.input_shape.members if model.input_shape else {}
    if "Bucket" in members:
        arguments["Bucket"] = "operations"
    if "Key" in members:
        arguments["Key"] = "object"
    if operation == "CopyObject" or operation == "UploadPartCopy":
        arguments["CopySource"] = "operations/object"
    # These bodies are optional in the model, but S3 calls requests without them malformed.
    arguments |= {
        "PutObjectLegalHold": {"LegalHold": {"Status": "ON"}},
        "PutObjectRetention": {"Retention": {"Mode": "GOVERNANCE"}},
    }.get(operation, {})
    if operation != "CreateBucket":
        s3.put_object(Bucket="operations", Key="object", Body=b"content")
    method = next(name for name, real in s3.meta.method_to_api_mapping.items() if real == operation)
    try:
        getattr(s3, method)(**arguments)
    except ClientError as error:
        return error.response["Error"]["Code"]
    return None


def test_the_table_names_what_the_code_answers():
    claimed = {snake(name) for name, answer in ROWS.items() if answer != "NotImplemented"}
    # `serve` begins a session before s3s gets the request, so it is not in the table.
    assert claimed - {"create_session"} == answered_in_code()
    assert len(ROWS) == 99


# This operation differs from ListBuckets only in its host, and boto3 does not send it to other
# endpoints.
DIRECTORY_BUCKETS = "ListDirectoryBuckets"


@pytest.mark.parametrize("operation", sorted(set(ROWS) - {FORM, DIRECTORY_BUCKETS}))
def test_an_operation_answers_as_the_table_says(s3, operation):
    code = refusal(s3, operation)
    if ROWS[operation] == "NotImplemented":
        assert code == "NotImplemented"
    else:
        assert code != "NotImplemented" and code != "InternalError", code
    s3.head_object(Bucket="operations", Key="object") if operation not in ("DeleteObject",) else None


def test_a_bucket_has_nothing_configured(s3):
    s3.put_object(Bucket="operations", Key="object", Body=b"content")
    expected = {
        "GetBucketPolicy": "NoSuchBucketPolicy",
        "GetBucketTagging": "NoSuchTagSet",
        "GetBucketCors": "NoSuchCORSConfiguration",
        "GetBucketLifecycleConfiguration": "NoSuchLifecycleConfiguration",
        "GetBucketEncryption": "ServerSideEncryptionConfigurationNotFoundError",
        "GetBucketWebsite": "NoSuchWebsiteConfiguration",
        "GetBucketReplication": "ReplicationConfigurationNotFoundError",
        "GetObjectLockConfiguration": "ObjectLockConfigurationNotFoundError",
        "GetPublicAccessBlock": "NoSuchPublicAccessBlockConfiguration",
        "GetBucketVersioning": None,
        "GetBucketNotificationConfiguration": None,
        "GetBucketLogging": None,
        "GetObjectTagging": None,
    }
    assert {operation: refusal(s3, operation) for operation in expected} == expected
    assert "Status" not in s3.get_bucket_versioning(Bucket="operations")
    assert s3.get_object_tagging(Bucket="operations", Key="object")["TagSet"] == []
    for acl in (s3.get_bucket_acl(Bucket="operations"), s3.get_object_acl(Bucket="operations", Key="object")):
        assert [grant["Permission"] for grant in acl["Grants"]] == ["FULL_CONTROL"]
    s3.put_object_acl(Bucket="operations", Key="object", ACL="private")
    with pytest.raises(ClientError) as error:
        s3.put_object_acl(Bucket="operations", Key="object", ACL="public-read")
    assert error.value.response["Error"]["Code"] == "AccessControlListNotSupported"
    with pytest.raises(ClientError) as error:
        s3.get_bucket_policy(Bucket="absent")
    assert error.value.response["Error"]["Code"] == "NoSuchBucket"


def test_a_signed_form_posts_an_object(served_below):
    s3 = client(served_below)
    told = {"Content-Type": "text/x-posted", "x-amz-meta-colour": "green"}
    conditions = [{name: value} for name, value in told.items()]
    post = s3.generate_presigned_post("data", "posted", Fields=told, Conditions=conditions, ExpiresIn=60)
    boundary = "form-boundary"
    fields = "".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in post["fields"].items()
    )
    file = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nposted\r\n--{boundary}--\r\n'
    request = urllib.request.Request(
        post["url"], (fields + file).encode(), {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    )
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(request, timeout=WAIT_LIMIT) as answer:
        assert answer.status in (200, 204)
    posted = s3.get_object(Bucket="data", Key="posted")
    assert posted["Body"].read() == b"posted" and posted["ContentType"] == "text/x-posted"
    assert posted["Metadata"] == {"colour": "green"}
