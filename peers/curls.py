"""Writes requests for eight curl processes: `curls.py URL PREFIX nothing|others` writes PREFIX-0 to PREFIX-7.

Each file is a configuration for `curl -K`: the process reads its share of URL/big in ranges on one kept-alive connection. With
`others`, a HEAD request, a listing and a PUT come before each range.
"""

import sys
from pathlib import Path

CLIENTS = 8
RANGE = 8 << 20
SIZE = 1 << 30


def main() -> int:
    url, prefix, before = sys.argv[1:]
    put = Path(f"{prefix}-put")
    put.write_bytes(b"x" * 1000)
    for client in range(CLIENTS):
        requests = []
        for at in range(client * RANGE, SIZE, CLIENTS * RANGE):
            if before == "others":
                requests += [
                    f'url = "{url}/big"\nhead',
                    f'url = "{url}/"',
                    f'url = "{url}/put-{client}"\nupload-file = "{put}"',
                ]
            requests.append(f'url = "{url}/big"\nrange = {at}-{at + RANGE - 1}')
        text = "\nnext\n".join(f"{request}\noutput = /dev/null\nsilent\nfail" for request in requests)
        Path(f"{prefix}-{client}").write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
