"""Many HTTP clients in one process: `crowd.py URL FILE CLIENTS PID`.

All clients get URL at once, whose content must equal FILE, beside as many connections that stopped in the middle of
a request. Prints `errors`, `seconds` (the slowest client), `unfairness` (the time of the slowest over the median) and
`server_peak_bytes`, the largest resident set of process PID. One thread with epoll and one receive buffer.
"""

import json
import resource
import selectors
import socket
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from mounted import peak_memory

# Timeout in seconds: several times what a fair server needs, so that a stuck client does not stop
# the measurement.
TIMEOUT = 120
BUFFER = 1 << 18


class Client:
    """A download, and how far it has come."""

    def __init__(self, port: int, request: bytes):
        self.socket = socket.create_connection(("127.0.0.1", port), TIMEOUT)
        self.socket.setblocking(False)
        self.request, self.head, self.at = request, b"", 0

    def start(self) -> None:
        self.socket.sendall(self.request)

    def take(self, received: memoryview, want: memoryview) -> bool:
        """Compares the received bytes with the file. Returns true once the download is complete."""
        if self.at == 0 and not self.head.endswith(b"\r\n\r\n"):
            head, end, _ = (self.head + bytes(received)).partition(b"\r\n\r\n")
            if not end:
                self.head = head
                return False
            if not head.startswith(b"HTTP/1.1 200"):
                raise ValueError(head[:60])
            received = received[len(head) + 4 - len(self.head) :]
            self.head = head + end
        if received != want[self.at : self.at + len(received)]:
            raise ValueError("wrong bytes")
        self.at += len(received)
        return self.at == len(want)


def drive(clients: list[Client], want: memoryview) -> tuple[list[float], int]:
    """Runs all downloads until each has ended, or until the timeout. Returns the sorted times of
    the complete ones, and the number of the others.
    """
    buffer = memoryview(bytearray(BUFFER))
    ends, errors = [], 0
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.socket, selectors.EVENT_READ, client)
        began = time.monotonic()
        for client in clients:
            client.start()
        while selector.get_map() and time.monotonic() - began < TIMEOUT:
            for key, _ in selector.select(1):
                client = key.data
                try:
                    length = client.socket.recv_into(buffer)
                    done = client.take(buffer[:length], want)
                    if length == 0:
                        raise ValueError("closed early")
                except (ValueError, OSError):
                    errors += 1
                    done = True
                else:
                    if done:
                        ends.append(time.monotonic() - began)
                if done:
                    selector.unregister(client.socket)
                    client.socket.close()
        return ends, errors + len(selector.get_map())


def main() -> int:
    url, want, count, pid = urlsplit(sys.argv[1]), Path(sys.argv[2]).read_bytes(), int(sys.argv[3]), int(sys.argv[4])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16384), hard))
    half_open = [socket.create_connection(("127.0.0.1", url.port), TIMEOUT) for _ in range(count)]
    for connection in half_open:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
    request = f"GET {url.path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    ends, errors = drive([Client(url.port, request) for _ in range(count)], memoryview(want))
    for connection in half_open:
        connection.close()
    figures = {"errors": errors, "server_peak_bytes": peak_memory(pid)}
    if ends:
        figures |= {"seconds": ends[-1], "unfairness": ends[-1] / ends[len(ends) // 2]}
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
