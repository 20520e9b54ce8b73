"""obstore as a contender: gets one object into a file by concurrent ranges, which obstore itself
does not do. Usage: obstore_get.py ENDPOINT KEY FILE"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

from obstore.store import S3Store

# The same as s5cmd and rclone use in these plans: 16 concurrent requests of 8 MiB.
RANGE = 8 << 20
REQUESTS = 16

endpoint, key, path = sys.argv[1:]
# obstore trusts only the certificate authorities of the system, so with another authority it cannot
# verify.
options = {"allow_http": True, "allow_invalid_certificates": "SSL_CERT_FILE" in os.environ}
store = S3Store("bench", endpoint=endpoint, virtual_hosted_style_request=False, client_options=options)
size = store.head(key)["size"]
with open(path, "wb") as file, ThreadPoolExecutor(REQUESTS) as threads:

    def fetch(start: int) -> None:
        os.pwrite(file.fileno(), store.get_range(key, start=start, end=min(start + RANGE, size)), start)

    list(threads.map(fetch, range(0, size, RANGE)))
