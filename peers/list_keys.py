"""The barest S3 listing: pages through the bucket `bench` over one connection. Usage: list_keys.py ENDPOINT EXPECTED"""

import http.client
import re
import sys
from urllib.parse import quote, urlsplit

endpoint, expected = urlsplit(sys.argv[1]), int(sys.argv[2])
connection = http.client.HTTPConnection(endpoint.hostname, endpoint.port)
# The servers accept signatures without checking them, so the request is not signed. The header only
# says that this is S3.
headers = {"Authorization": "AWS4-HMAC-SHA256 Credential=bench/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"}
token, keys = None, 0
while True:
    after = f"&continuation-token={quote(token, safe='')}" if token else ""
    connection.request("GET", f"/bench?list-type=2{after}", headers=headers)
    page = connection.getresponse().read().decode()
    keys += page.count("<Key>")
    found = re.search("<NextContinuationToken>(.*?)</NextContinuationToken>", page)
    if not found:
        break
    token = found[1]
sys.exit(f"{keys} keys, not {expected}" if keys != expected else 0)
