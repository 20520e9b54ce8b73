"""Random reads over one plain HTTP connection: `bare_get.py URL READS BYTES` gets that many ranges, one after another.

No library, one kept-alive connection. The object's size comes from a HEAD request outside the timing. The offsets
come from the seed that mounted.py uses. Prints `seconds`.
"""

import http.client
import json
import random
import sys
import time
from urllib.parse import urlsplit


def main() -> int:
    url, reads, length = urlsplit(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    connection = http.client.HTTPConnection(url.hostname, url.port)
    connection.request("HEAD", url.path)
    answer = connection.getresponse()
    answer.read()
    blocks = int(answer.headers["Content-Length"]) // length
    source = random.Random(7)
    began = time.perf_counter()
    for _ in range(reads):
        at = source.randrange(blocks) * length
        connection.request("GET", url.path, headers={"Range": f"bytes={at}-{at + length - 1}"})
        if len(connection.getresponse().read()) != length:
            raise SystemExit("a short answer")
    print(json.dumps({"seconds": time.perf_counter() - began}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
