"""Hosts of the guest: each has its own network, name and mounts, as a machine has.

A host lives until the guest ends. Commands run inside by `nsenter`. All hosts have the same paths
of the system, except `/run`, `/var/lib/nfs` and later mounts.
"""

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class CommandFailed(Exception):
    """A command in a host has ended with a code other than 0, or has not ended."""


@dataclass(frozen=True)
class Host:
    """A host's namespaces, which exist as long as the process `pid`."""

    name: str
    pid: int

    @staticmethod
    def start(name: str) -> "Host":
        """Makes a host that has no network yet."""
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
        """Returns the command line that runs these words in this host."""
        return ["nsenter", f"--target={self.pid}", "--mount", "--net", "--uts", f"--wdns={os.getcwd()}", *words]

    def run(self, *words: str, limit: float = 120, env: dict[str, str] | None = None, check: bool = True) -> str:
        """Runs a command until it ends. Returns its standard output."""
        done = self.ended(*words, limit=limit, env=env)
        if check and done.returncode != 0:
            raise CommandFailed(f"{self.name}: {' '.join(words)[:300]}: exit {done.returncode}: {done.stderr[-1500:]}")
        return done.stdout

    def ended(self, *words: str, limit: float = 120, env: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
        """Runs a command until it ends, whether or not it succeeds."""
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
        """Returns the path at which the guest's first host sees a path of this host."""
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
        """Connects two hosts. The server gets the address 10.0.NUMBER.1, the client 10.0.NUMBER.2.
        """
        near, far = f"s{number}", f"c{number}"
        subprocess.run(["ip", "link", "add", near, "netns", str(server.pid), "type", "veth", "peer", far, "netns", str(client.pid)], check=True)
        for host, device, last in ((server, near, 1), (client, far, 2)):
            host.run("ip", "address", "add", f"10.0.{number}.{last}/24", "dev", device)
            host.run("ip", "link", "set", device, "up")
        return Cable(server, client, number)

    @property
    def address(self) -> str:
        """Address of the server, as the client sees it."""
        return f"10.0.{self.number}.1"

    def delay(self, milliseconds: float) -> None:
        """Sets the delay of a round trip, in milliseconds. Each direction gets half of it."""
        for host, device in ((self.server, f"s{self.number}"), (self.client, f"c{self.number}")):
            if milliseconds:
                host.run("tc", "qdisc", "replace", "dev", device, "root", "netem", "limit", "100000", "delay", f"{milliseconds * 500:.0f}us")
            else:
                host.run("tc", "qdisc", "del", "dev", device, "root", check=False)

    def cut(self) -> None:
        """Cuts the connection."""
        self.server.run("ip", "link", "set", f"s{self.number}", "down")

    def mend(self) -> None:
        """Restores the connection."""
        self.server.run("ip", "link", "set", f"s{self.number}", "up")
