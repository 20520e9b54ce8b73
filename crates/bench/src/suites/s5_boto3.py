"""Downloads with boto3 as the source of S5 did: one object by download_file, or all below a prefix
by a list_objects_v2 paginator that feeds a pool of threads.

usage: s5_boto3.py one LOCATION NAME DESTINATION
       s5_boto3.py many LOCATION PREFIX DESTINATION THREADS

LOCATION is s3://BUCKET or s3://BUCKET/PREFIX. NAME and PREFIX are below it. Prints metrics. Their
seconds begin after boto3 is imported and its client is made, as in the handler of a function.
"""

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

try:
    import boto3
    from botocore.config import Config
except ImportError:
    sys.exit("boto3 is not installed: pip install boto3, or name a Python that has it with --set python=PATH")


def split(location, name):
    """Returns the bucket and the key of `name` below a location."""
    bucket, _, prefix = location.removeprefix("s3://").partition("/")
    prefix = prefix.strip("/")
    return bucket, f"{prefix}/{name}" if prefix else name


def one(s3, bucket, key, destination):
    """Downloads one object and returns its size in bytes."""
    path = os.path.join(destination, os.path.basename(key))
    s3.download_file(bucket, key, path)
    return os.path.getsize(path)


def many(s3, bucket, prefix, destination, threads):
    """Downloads all objects below a prefix and returns their size in bytes."""
    prefix = prefix.rstrip("/") + "/"

    def get(key):
        path = os.path.join(destination, key.removeprefix(prefix))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        s3.download_file(bucket, key, path)
        return os.path.getsize(path)

    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(get, item["Key"]) for page in pages for item in page.get("Contents", ())]
        return sum(future.result() for future in futures)


def main():
    kind, location, name, destination, *threads = sys.argv[1:]
    threads = int(threads[0]) if threads else 10
    os.makedirs(destination, exist_ok=True)
    s3 = boto3.client("s3", config=Config(max_pool_connections=max(10, threads)))
    bucket, key = split(location, name)
    began = time.perf_counter()
    total = one(s3, bucket, key, destination) if kind == "one" else many(s3, bucket, key, destination, threads)
    print(json.dumps({"seconds": time.perf_counter() - began, "bytes": total}))


main()
