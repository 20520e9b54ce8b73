"""Prints the names in a directory, each with a zero byte.

    names.py scandir|walk|getdents:BYTES|list_arrow|list_arrow:recursive DIR
"""

import ctypes
import os
import sys

GETDENTS64 = 217
# Number of bytes before the name in a record: inode and position with 8 bytes each, length with 2,
# and type with 1.
NAME = 19


def by_scandir(path: bytes) -> list[bytes]:
    """Lists a directory as Python does, with readdir."""
    return [entry.name for entry in os.scandir(path)]


def by_getdents(path: bytes, size: int) -> list[bytes]:
    """Lists a directory with the system call getdents64 and a buffer of `size` bytes."""
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


def by_walk(path: bytes) -> list[bytes]:
    """Returns the relative paths of everything below a directory, from `os.walk`."""
    paths = [os.path.join(at, name) for at, below, files in os.walk(path) for name in (*below, *files)]
    return [os.path.relpath(one, path) for one in paths]


def by_arrow(path: bytes, recursive: bool) -> list[bytes]:
    """Returns the first column of `firstbyte.list_arrow`."""
    import arrow
    import firstbyte

    return arrow.first_column(firstbyte.list_arrow(path, recursive=recursive))


METHODS = {
    "scandir": lambda path, _: by_scandir(path),
    "walk": lambda path, _: by_walk(path),
    "getdents": lambda path, size: by_getdents(path, int(size)),
    "list_arrow": lambda path, depth: by_arrow(path, depth == "recursive"),
}


def main() -> None:
    """Prints the names that the chosen method returns."""
    method, _, argument = sys.argv[1].partition(":")
    names = METHODS[method](os.fsencode(sys.argv[2]), argument)
    sys.stdout.buffer.write(b"".join(name + b"\0" for name in names))


if __name__ == "__main__":
    main()
