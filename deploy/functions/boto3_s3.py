"""S3 by boto3, as functions usually read it: `download_file`, and a pool of 30 threads for many.

Handler: `boto3_s3.handle`. To be set beside the function of firstbyte, with the same events.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

import answer

THREADS = 30


def client(endpoint_url: str | None):
    return boto3.client("s3", endpoint_url=endpoint_url, config=Config(max_pool_connections=THREADS))


# The client is made before the first event, as AWS advises.
S3 = client(os.environ.get("FIRSTBYTE_ENDPOINT_URL"))


def bucket_and_key(location: str) -> tuple[str, str]:
    scheme, _, rest = location.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme != "s3" or not bucket:
        raise answer.BadInput(f"{location}: write s3://BUCKET/KEY")
    return bucket, key


def s3_of(call: answer.Call):
    endpoint_url = call.event.get("endpoint_url")
    return client(endpoint_url) if endpoint_url else S3


def explained(error: ClientError, location: str, action: str) -> Exception:
    code = error.response["Error"]["Code"]
    if code in ("404", "NoSuchKey", "NoSuchBucket"):
        return answer.NotFound(f"{location}: not found; check the name")
    if code in ("403", "AccessDenied", "SignatureDoesNotMatch", "InvalidAccessKeyId"):
        return answer.Denied(f"{location}: access denied ({code}); the role lacks {action}")
    return error


def download(call: answer.Call) -> dict:
    s3, source = s3_of(call), call.text("source")
    bucket, key = bucket_and_key(source)
    path = call.destination()
    try:
        size = s3.head_object(Bucket=bucket, Key=key)["ContentLength"]
        call.reached("opened")
        call.room(path, size)
        path.parent.mkdir(parents=True, exist_ok=True)
        s3.download_file(bucket, key, str(path), Callback=call.moved)
    except ClientError as error:
        raise explained(error, source, "s3:GetObject") from error
    call.reached("all")
    return {"destination": str(path), "objects": 1, "bytes": path.stat().st_size}


def copy_many(call: answer.Call) -> dict:
    s3, source = s3_of(call), call.text("source")
    bucket, prefix = bucket_and_key(source)
    root = call.destination()

    def fetch(key: str) -> int:
        path = root / key[len(prefix) :].lstrip("/")
        if ".." in path.parts:
            raise answer.BadInput(f"s3://{bucket}/{key}: its name leads out of {root}")
        path.parent.mkdir(parents=True, exist_ok=True)
        s3.download_file(bucket, key, str(path), Callback=call.moved)
        return path.stat().st_size

    try:
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        keys = [item["Key"] for page in pages for item in page.get("Contents", []) if not item["Key"].endswith("/")]
        call.reached("opened")
        with ThreadPoolExecutor(call.event.get("concurrency") or THREADS) as pool:
            sizes = list(pool.map(fetch, keys))
    except ClientError as error:
        raise explained(error, source, "s3:ListBucket or s3:GetObject") from error
    call.reached("all")
    return {"destination": str(root), "objects": len(sizes), "bytes": sum(sizes)}


handle = answer.handler({
    "download": ({"source", "destination"}, download),
    "copy-many": ({"source", "destination", "concurrency"}, copy_many),
})
