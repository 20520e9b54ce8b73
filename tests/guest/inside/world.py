"""A server with file systems, and clients: the start of jobs about NFS."""

import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import nfs
from disks import Disks
from host import Cable, Host
from nfs import Mount

MODULES = "nfs nfsv3 nfsv4 nfsd lockd veth sch_netem loop".split()
# Patterns of the programs and libraries that jobs use.
READ = "/job /usr/lib/python3.* /usr/lib/x86_64-linux-gnu/lib[cdefmpsuz]*.so* /bin/find /bin/ls /bin/cp /bin/cat /bin/du /bin/python3 /bin/nsenter".split()
# Options of an export. Root on a client acts as root on the server, so that tests may make any
# file.
EXPORT = "rw,no_root_squash,no_subtree_check"
AT = "/mnt/nfs"
# File systems that can be exported. The file handles of the others are not permanent.
EXPORTED = ("ext4", "xfs", "btrfs")


def read_programs() -> None:
    """Reads the programs that jobs use into memory, so that no job waits for a disk of the host."""
    subprocess.run(f"find -H {' '.join(READ)} -maxdepth 2 -type f '(' -size -6M -o -path '/job/*' ')' -exec cat {{}} + > /dev/null", shell=True, check=False)


@dataclass
class World:
    """Hosts and cables. Each export is the directory in `/srv` that has the name of its file
    system's kind.
    """

    disks: Disks
    server: nfs.Server
    cables: list[Cable]
    local: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def make(kinds: Iterable[str] = ("ext4",), clients: int = 1, in_memory: bool = False) -> "World":
        """Makes and exports file systems, and starts the hosts."""
        subprocess.run(["modprobe", "-a", *MODULES], check=True)
        if in_memory:
            read_programs()
        disks = Disks(in_memory)
        local = {kind: str(disks.mounted(kind, f"/srv/{kind}")) for kind in kinds}
        host = Host.start("server")
        cables = [Cable.lay(host, Host.start(f"client{number}"), number) for number in range(1, clients + 1)]
        exports = {local[kind]: f"{EXPORT},fsid={number}" for number, kind in enumerate(EXPORTED, 1) if kind in local}
        server = nfs.Server.start(host, exports)
        for cable in cables:
            nfs.start_lock_services(cable.client)
        return World(disks, server, cables, local)

    @property
    def cable(self) -> Cable:
        """The cable of the first client."""
        return self.cables[0]

    @contextmanager
    def mounted(self, version: str, path: str = "/srv/ext4", at: str = AT, options: str = "", cable: Cable | None = None) -> Iterator[Mount]:
        """Mounts an export during the block."""
        words = ",".join(filter(None, [nfs.VERSIONS[version], options]))
        mount = Mount.of(cable or self.cable, path, at, words)
        try:
            yield mount
        finally:
            mount.end()
