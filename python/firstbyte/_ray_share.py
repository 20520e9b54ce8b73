"""Runs a gateway on each node of a Ray cluster, so that nodes read what other nodes have fetched.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from typing import Any

import ray
from firstbyte._path import text_of
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

# Options of `hydrate` that have the same name in the program.
_SAME_NAME_OPTIONS = ("cache", "cache_size", "cache_store", "endpoint_url", "limit_rate", "memory", "profile", "region")
# Options that are flags in the program, each with its flag.
_FLAGS = {"anonymous": "--no-sign-request", "cache_shared": "--cache-shared", "pin": "--pin"}
# Maximum number of seconds that a gateway has to end.
_END_TIMEOUT = 15


def hydrate_everywhere(source: str, options: dict[str, Any]) -> dict[str, Any]:
    """Fetch a tree into the cache of every node. Return the receipt of each node, and their sums.
    """
    words = _words(options)
    key = f"job {secrets.token_hex(24)} read\n"
    remote: Any = ray.remote(_Node)
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) > 0]
    actors = [
        remote.options(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(key)
        for node in nodes
    ]
    try:
        urls = ray.get([actor.serve.remote(source, words) for actor in actors])
        receipts = ray.get([actor.hydrate.remote(source, words, ",".join(urls)) for actor in actors])
    finally:
        ray.wait([actor.stop.remote() for actor in actors], num_returns=len(actors), timeout=_END_TIMEOUT)
    totals = {name: sum(receipt[name] for receipt in receipts) for name in ("objects", "bytes", "resumed_bytes")}
    failed = [failure for receipt in receipts for failure in receipt["failed"]]
    return totals | {"failed": failed, "nodes": receipts}


def _words(options: dict[str, Any]) -> list[str]:
    """Return the options as command-line arguments of the program."""
    words = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        if name in _FLAGS:
            words.append(_FLAGS[name])
        elif name in _SAME_NAME_OPTIONS:
            words += ["--" + name.replace("_", "-"), text_of(value) if isinstance(value, (bytes, os.PathLike)) else str(value)]
        else:
            raise TypeError(f"hydrate: with share there is no option {name!r}")
    return words


def _program() -> str:
    """Return the path of the program that was installed with the package."""
    beside = os.path.join(os.path.dirname(sys.executable), "firstbyte")
    found = beside if os.access(beside, os.X_OK) else shutil.which("firstbyte")
    if found is None:
        raise FileNotFoundError(f"firstbyte: not beside {sys.executable} nor in PATH on {os.uname().nodename}")
    return found


class _Node:
    """Ray actor on one node: runs the node's gateway, and the command that fills the node's cache.
    """

    def __init__(self, key: str):
        self.directory = tempfile.mkdtemp()
        self.keys = os.path.join(self.directory, "keys")
        with open(os.open(self.keys, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            file.write(key)
        self.gateway: subprocess.Popen[str] | None = None

    def serve(self, source: str, words: list[str]) -> str:
        """Start the gateway. Return its URL."""
        listen = f"{ray.util.get_node_ip_address()}:0"
        # Removes the options that only fetching has, which a gateway does not accept.
        words = [word for word in words if word != "--pin"]
        if "--limit-rate" in words:
            at = words.index("--limit-rate")
            del words[at : at + 2]
        command = [_program(), "serve", source, "--listen", listen, "--auth", self.keys, *words]
        log = os.path.join(self.directory, "log")
        with open(log, "w", encoding="utf-8") as errors:
            self.gateway = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self.gateway.stdout is not None
        url = self.gateway.stdout.readline().strip()
        if not url:
            with open(log, encoding="utf-8") as errors:
                raise OSError(errors.read().strip())
        return url

    def hydrate(self, source: str, words: list[str], via: str) -> dict[str, Any]:
        """Fetch everything through the gateways. Return the receipt."""
        command = [_program(), "--json", "hydrate", "--recursive", source, "--via", via, "--via-key", self.keys, *words]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode not in (0, 3):
            raise OSError(done.stderr.strip().splitlines()[-1])
        receipt: dict[str, Any] = json.loads(done.stdout)
        return receipt

    def stop(self) -> None:
        """End the gateway."""
        if self.gateway is not None:
            self.gateway.terminate()
            self.gateway.wait(_END_TIMEOUT)
            self.gateway = None
        shutil.rmtree(self.directory, ignore_errors=True)
