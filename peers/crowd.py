"""A thousand HTTP clients in one process: epoll, one receive buffer, every byte compared with the original."""

import resource
import selectors
import socket
import statistics
import time
from dataclasses import dataclass

# Several times what a fair server needs; a stuck client must not stop the row.
TIMEOUT = 120
BUFFER = 1 << 18


@dataclass
class Outcome:
    """What the crowd saw."""

    times: list[float]
    errors: int

    @property
    def unfairness(self) -> float:
        """The slowest client's time over the median's."""
        return max(self.times) / statistics.median(self.times) if self.times else float("inf")

    def __str__(self) -> str:
        if not self.times:
            return f"no client served, {self.errors} errors"
        return (
            f"{len(self.times)} clients served, {self.errors} errors, median {statistics.median(self.times):.1f} s, "
            f"slowest {max(self.times):.1f} s"
        )


class Client:
    """One download and how far it is."""

    def __init__(self, port: int, request: bytes):
        self.socket = socket.create_connection(("127.0.0.1", port), TIMEOUT)
        self.socket.setblocking(False)
        self.request, self.head, self.at = request, b"", 0

    def start(self) -> None:
        self.socket.sendall(self.request)

    def take(self, received: memoryview, want: memoryview) -> bool:
        """Compares what came; returns whether the download is complete."""
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


def run(port: int, path: str, want: bytes, count: int) -> Outcome:
    """`count` clients that start together, beside as many connections that stopped in mid-request."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16384), hard))
    half_open = [socket.create_connection(("127.0.0.1", port), TIMEOUT) for _ in range(count)]
    for connection in half_open:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    clients = [Client(port, request) for _ in range(count)]
    outcome = drive(clients, memoryview(want))
    for connection in half_open:
        connection.close()
    return outcome


def drive(clients: list[Client], want: memoryview) -> Outcome:
    """Runs all downloads to their end."""
    buffer = memoryview(bytearray(BUFFER))
    outcome = Outcome([], 0)
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
                    outcome.errors += 1
                    done = True
                else:
                    if done:
                        outcome.times.append(time.monotonic() - began)
                if done:
                    selector.unregister(client.socket)
                    client.socket.close()
        outcome.errors += len(selector.get_map())
    return outcome
