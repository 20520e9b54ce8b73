"""Eight curl processes reading one file in ranges, each on its one kept-alive connection."""

import enum
import shlex
from pathlib import Path

from servers import Server

CLIENTS = 8
RANGE = 8 << 20
SIZE = 1 << 30


class Before(enum.Enum):
    """What each range request follows on its connection."""

    NOTHING = enum.auto()
    HEAD_LIST_PUT = enum.auto()


def ranges(stage: Path, server: Server, before: Before) -> list[str]:
    """A shell command that reads the whole file once, in ranges, by CLIENTS clients together."""
    put = stage / "put"
    put.write_bytes(b"x" * 1000)
    configs = []
    for client in range(CLIENTS):
        requests = []
        for at in range(client * RANGE, SIZE, CLIENTS * RANGE):
            if before is Before.HEAD_LIST_PUT:
                requests += [
                    f'url = "{server.url}/data/big.bin"\nhead\noutput = /dev/null',
                    f'url = "{server.url}/data/"\noutput = /dev/null',
                    f'url = "{server.url}/data/put-{client}"\nupload-file = "{put}"\noutput = /dev/null',
                ]
            requests.append(f'url = "{server.url}/data/big.bin"\nrange = {at}-{at + RANGE - 1}\noutput = /dev/null')
        config = stage / f"curl-{server.port}-{before.name}-{client}"
        config.write_text("\nnext\n".join(f"{request}\nsilent\nfail" for request in requests) + "\n")
        configs.append(config)
    start = "; ".join(f"curl -K {shlex.quote(str(config))} & p{n}=$!" for n, config in enumerate(configs))
    # A background command's failure shows only where it is waited for.
    return ["sh", "-c", start + "".join(f"; wait $p{n} || exit 1" for n in range(len(configs)))]
