"""An NFS server and its clients, and the calls that each mount has made.

The kernel's own server exports directories of one host, and other hosts mount them.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from host import Cable, Host, wait_for

# Mount options for each version that is tested.
VERSIONS = {"3": "vers=3", "4.1": "vers=4.1", "4.2": "vers=4.2"}
# Duration of leases and grace periods in seconds. The default is 90 s, after each restart. A lease
# must last longer than a cut of two seconds on a busy host.
LEASE = 12
# Calls that keep sessions alive. Their number depends on time, and not on the program.
OF_TIME = {"SEQUENCE", "RENEW", "NULL"}


@dataclass
class Server:
    """The kernel's NFS server on a host."""

    host: Host

    @staticmethod
    def start(host: Host, exports: dict[str, str]) -> "Server":
        """Starts a server and everything that it needs. Exports directories with their options."""
        host.run("mount", "-t", "nfsd", "nfsd", "/proc/fs/nfsd")
        start_lock_services(host)
        host.start_command("nfsdcld", "--foreground")
        server = Server(host)
        server.up()
        for path, options in exports.items():
            host.run("exportfs", "-o", options, f"*:{path}")
        host.run("rpc.mountd")
        return server

    def up(self) -> None:
        """Starts the server's threads. Also used after `down`."""
        self.host.run("rpc.nfsd", f"--lease-time={LEASE}", f"--grace-time={LEASE}", "8")

    def down(self) -> None:
        """Ends the server's threads. The server then forgets open files, as after a crash."""
        self.host.run("rpc.nfsd", "0")


def start_lock_services(host: Host) -> None:
    """Starts the services that NFS 3 needs for locks, on a server and on a client."""
    host.run("sysctl", "-q", f"fs.nfs.nlm_grace_period={LEASE}", check=False)
    host.run("rpcbind", "-w")
    wait_for("rpcbind", lambda: host.see("/run/rpcbind.sock").exists())
    host.run("rpc.statd", "--no-notify")


@dataclass
class Mount:
    """An export that a client has mounted."""

    client: Host
    at: str
    words: tuple[str, ...]

    @staticmethod
    def of(cable: Cable, path: str, at: str, options: str) -> "Mount":
        """Mounts the server's directory `path` at the client's directory `at`."""
        mount = Mount(cable.client, at, ("mount", "-t", "nfs", "-o", options, f"{cable.address}:{path}", at))
        cable.client.run("mkdir", "-p", at)
        cable.client.run(*mount.words)
        return mount

    def end(self) -> None:
        """Unmounts the export."""
        self.client.run("umount", self.at)

    def forget(self) -> None:
        """Drops the names and content that the client has cached, by unmounting and mounting again.
        If there were another mount of the same export with the same options, the client would keep
        them.
        """
        self.end()
        self.client.run(*self.words)

    def calls(self) -> dict[str, int]:
        """Returns how many calls the mount has made so far, by name of the call."""
        text = Path(f"/proc/{self.client.pid}/mountstats").read_text(errors="replace")
        for part in re.split(r"^device ", text, flags=re.MULTILINE):
            if re.match(rf"\S+ mounted on {re.escape(self.at)} with fstype nfs", part):
                rows = re.findall(r"^\s+([A-Z_0-9]+): (\d+) ", part.partition("per-op statistics")[2], re.MULTILINE)
                return {name: int(count) for name, count in rows if int(count) and name not in OF_TIME}
        raise LookupError(f"{self.at} has no statistics")


def since(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """Returns how many calls were made between two counts."""
    return {name: count - before.get(name, 0) for name, count in after.items() if count > before.get(name, 0)}
