"""What a random read costs at the least: `bare_get.py URL READS BYTES` asks for that many ranges, one after the other.

One plain connection, kept alive, no library. The object's size comes from a HEAD outside the timing, the places from the seed
that the mounts' readers use. Prints the seconds.
"""

import http.client
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
    print(time.perf_counter() - began)
    return 0


if __name__ == "__main__":
    sys.exit(main())
