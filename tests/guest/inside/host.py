"""Hosts of the guest: each has a network, a name, and mounts of its own, as a machine has.

A host lives until the guest ends. Commands run inside by `nsenter`; paths of the system are the
same in all of them, but `/run`, `/var/lib/nfs` and what is mounted later.
"""

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class CommandFailed(Exception):
    """A command inside ended with another code than 0, or did not end."""


@dataclass(frozen=True)
class Host:
    """Namespaces, held by the process `pid`."""

    name: str
    pid: int

    @staticmethod
    def start(name: str) -> "Host":
        """A host without a network."""
        ready = f"/tmp/{name}.ready"
        script = f"""echo {name} > /proc/sys/kernel/hostname; ip link set lo up
            mount -t tmpfs -o mode=755 run /run; mkdir -p /run/rpcbind /run/lock /run/samba
            mount -t tmpfs nfs /var/lib/nfs; mkdir -p /var/lib/nfs/rpc_pipefs /var/lib/nfs/sm /var/lib/nfs/sm.bak /var/lib/nfs/nfsdcld
            mkdir -p /var/lib/nfs/v4recovery; touch /var/lib/nfs/etab /var/lib/nfs/rmtab /var/lib/nfs/state
            mount -t rpc_pipefs rpc_pipefs /var/lib/nfs/rpc_pipefs
            touch {ready}; exec sleep infinity"""
        words = ["unshare", "--mount", "--net", "--uts", "--propagation", "slave", "bash", "-c", script]
        process = subprocess.Popen(words)
        wait_for(f"the host {name}", lambda: Path(ready).exists())
        return Host(name, process.pid)

    def inside(self, *words: str) -> list[str]:
        """The command line that runs words in this host."""
        return ["nsenter", f"--target={self.pid}", "--mount", "--net", "--uts", f"--wdns={os.getcwd()}", *words]

    def run(self, *words: str, limit: float = 120, env: dict[str, str] | None = None, check: bool = True) -> str:
        """Runs a command to its end; returns what it wrote to stdout."""
        done = self.ended(*words, limit=limit, env=env)
        if check and done.returncode != 0:
            raise CommandFailed(f"{self.name}: {' '.join(words)[:300]}: exit {done.returncode}: {done.stderr[-1500:]}")
        return done.stdout

    def ended(self, *words: str, limit: float = 120, env: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
        """Runs a command to its end, whatever that is."""
        try:
            return subprocess.run(
                self.inside(*words), capture_output=True, text=True, errors="surrogateescape", timeout=limit, env=os.environ | (env or {}), check=False
            )
        except subprocess.TimeoutExpired:
            raise CommandFailed(f"{self.name}: {' '.join(words)[:300]} did not end in {limit} s") from None

    def start_command(self, *words: str, **options: Any) -> "subprocess.Popen[str]":
        """Starts a command."""
        return subprocess.Popen(self.inside(*words), text=True, **options)

    def see(self, path: str) -> Path:
        """A path of this host as the guest's first host sees it."""
        return Path(f"/proc/{self.pid}/root{path}")


def wait_for(what: str, holds: Any, limit: float = 60) -> None:
    """Waits until a condition holds."""
    end = time.monotonic() + limit
    while not holds():
        if time.monotonic() > end:
            raise CommandFailed(f"waited {limit} s for {what}")
        time.sleep(0.02)


@dataclass
class Cable:
    """A pair of network devices between the server and a client."""

    server: Host
    client: Host
    number: int

    @staticmethod
    def lay(server: Host, client: Host, number: int) -> "Cable":
        """Connects two hosts: the server is 10.0.NUMBER.1, the client 10.0.NUMBER.2."""
        near, far = f"s{number}", f"c{number}"
        subprocess.run(["ip", "link", "add", near, "netns", str(server.pid), "type", "veth", "peer", far, "netns", str(client.pid)], check=True)
        for host, device, last in ((server, near, 1), (client, far, 2)):
            host.run("ip", "address", "add", f"10.0.{number}.{last}/24", "dev", device)
            host.run("ip", "link", "set", device, "up")
        return Cable(server, client, number)

    @property
    def address(self) -> str:
        """The server, as the client sees it."""
        return f"10.0.{self.number}.1"

    def delay(self, milliseconds: float) -> None:
        """Sets the time of a round trip that the network adds, half of it each way."""
        for host, device in ((self.server, f"s{self.number}"), (self.client, f"c{self.number}")):
            if milliseconds:
                host.run("tc", "qdisc", "replace", "dev", device, "root", "netem", "limit", "100000", "delay", f"{milliseconds * 500:.0f}us")
            else:
                host.run("tc", "qdisc", "del", "dev", device, "root", check=False)

    def cut(self) -> None:
        """Lets nothing through."""
        self.server.run("ip", "link", "set", f"s{self.number}", "down")

    def mend(self) -> None:
        """Connects them again."""
        self.server.run("ip", "link", "set", f"s{self.number}", "up")
