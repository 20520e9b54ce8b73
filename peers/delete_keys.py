"""The barest deletion: DeleteObjects of all keys below a prefix of the bucket `bench`. Keys are listed and requests
signed before the clock starts; the seconds are those of sending and answering. Usage: delete_keys.py ENDPOINT PREFIX AT_ONCE [KEYS]
"""

import base64
import hashlib
import http.client
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.session import get_session

ENDPOINT, PREFIX, AT_ONCE = sys.argv[1], sys.argv[2], int(sys.argv[3])
KEYS = int(sys.argv[4]) if len(sys.argv) > 4 else 1000
URL = f"{ENDPOINT}/bench?delete="


def signed(keys: list[str]) -> tuple[dict[str, str], bytes]:
    """Returns the headers and the body of one signed request."""
    named = "".join(f"<Object><Key>{escape(key)}</Key></Object>" for key in keys)
    body = f"<Delete><Quiet>true</Quiet>{named}</Delete>".encode()
    digest = base64.b64encode(hashlib.md5(body).digest()).decode()
    request = AWSRequest("POST", URL, {"Content-MD5": digest, "X-Amz-Content-SHA256": hashlib.sha256(body).hexdigest()}, body)
    SigV4Auth(session.get_credentials(), "s3", "us-east-1").add_auth(request)
    return dict(request.headers.items()), body


def send(requests: list[tuple[dict[str, str], bytes]]) -> None:
    """Sends requests over one connection."""
    connection = http.client.HTTPConnection(urlsplit(ENDPOINT).netloc)
    for headers, body in requests:
        connection.request("POST", "/bench?delete=", body, headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200 or b"<Error>" in text:
            raise SystemExit(f"{answer.status}: {text[:300]!r}")


session = get_session()
client = session.create_client("s3", endpoint_url=ENDPOINT, region_name="us-east-1", config=Config(s3={"addressing_style": "path"}))
pages = client.get_paginator("list_objects_v2").paginate(Bucket="bench", Prefix=PREFIX)
keys = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
requests = [signed(keys[start : start + KEYS]) for start in range(0, len(keys), KEYS)]
began = time.monotonic()
with ThreadPoolExecutor(AT_ONCE) as pool:
    list(pool.map(send, [requests[first::AT_ONCE] for first in range(AT_ONCE)]))
print(json.dumps({"seconds": time.monotonic() - began, "objects": len(keys)}))
