"""Prints the names in a directory, each with a zero byte.

    names.py scandir|getdents:BYTES DIR
"""

import ctypes
import os
import sys

GETDENTS64 = 217
# A record: inode and position of 8 bytes each, its length of 2, its type of 1, then the name.
NAME = 19


def by_scandir(path: bytes) -> list[bytes]:
    """As Python lists a directory, by readdir."""
    return [entry.name for entry in os.scandir(path)]


def by_getdents(path: bytes, size: int) -> list[bytes]:
    """By the system call, with a buffer of so many bytes."""
    libc, buffer, names = ctypes.CDLL(None, use_errno=True), ctypes.create_string_buffer(size), []
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    while (read := libc.syscall(GETDENTS64, fd, buffer, size)) > 0:
        records, at = memoryview(buffer)[:read], 0
        while at < read:
            length = int.from_bytes(records[at + 16 : at + 18], sys.byteorder)
            name = bytes(records[at + NAME : at + length]).split(b"\0", 1)[0]
            at += length
            if name not in (b".", b".."):
                names.append(name)
    if read < 0:
        raise OSError(ctypes.get_errno(), "getdents64")
    return names


def main() -> None:
    """Prints the names."""
    method, path = sys.argv[1], os.fsencode(sys.argv[2])
    names = by_scandir(path) if method == "scandir" else by_getdents(path, int(method.partition(":")[2]))
    sys.stdout.buffer.write(b"".join(name + b"\0" for name in names))


if __name__ == "__main__":
    main()
