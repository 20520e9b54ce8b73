"""A Samba server on the server's host, and CIFS mounts of it."""

from collections.abc import Iterator
from contextlib import contextmanager

from host import Cable, wait_for

# Guests act as root, so that tests may make any file. Nothing is encrypted or signed.
SETTINGS = """[global]
    security = user
    map to guest = bad user
    guest account = root
    guest ok = yes
    server min protocol = SMB3
    smb ports = 445
    disable netbios = yes
    load printers = no
    printcap name = /dev/null
    log file = /tmp/smbd.log
    state directory = /run/samba
    cache directory = /run/samba
    lock directory = /run/samba
    private dir = /run/samba
    pid directory = /run/samba
    ncalrpc dir = /run/samba/ncalrpc
[share]
    path = {path}
    read only = no
    guest ok = yes
    force user = root
"""


@contextmanager
def shared(cable: Cable, path: str, at: str, options: str = "") -> Iterator[None]:
    """During the block, serves the server's directory `path`, and mounts it at `at` on the client.
    """
    server, client = cable.server, cable.client
    server.see("/run/smb.conf").write_text(SETTINGS.format(path=path))
    # The daemon runs in a session of its own: when it ends, it kills its process group, which must
    # not be the job's.
    words = ("smbd", "--foreground", "--no-process-group", "--configfile=/run/smb.conf")
    daemon = server.start_command(*words, start_new_session=True)
    try:
        client.run("mkdir", "-p", at)
        words = ",".join(filter(None, ["guest,vers=3.1.1", options]))
        mount = ["mount", "-t", "cifs", "-o", words, f"//{cable.address}/share", at]
        wait_for("Samba", lambda: client.ended(*mount).returncode == 0)
        try:
            yield
        finally:
            client.run("umount", at)
    finally:
        daemon.terminate()
        daemon.wait()
