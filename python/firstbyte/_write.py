"""An object written as a file, from its beginning to its end: what an fsspec file system opens
for writing.
"""

from __future__ import annotations

import io
from typing import Any

from firstbyte import _native

# What a writer gathers before it hands it on.
_PIECE = 1 << 20


class WriteFile(io.BufferedWriter):
    """An object being written: there, and whole, when it is closed; left as it was if the block
    ends with an error.
    """

    def __init__(self, raw: RawWriter, autocommit: bool) -> None:
        super().__init__(raw, _PIECE)
        self._writer = raw
        self._autocommit = autocommit

    def close(self) -> None:
        """Write what is left; the object is there then, unless it is part of a transaction."""
        if not self.closed:
            try:
                super().close()
            except BaseException:
                self.discard()
                raise
            if self._autocommit:
                self.commit()

    def commit(self) -> None:
        """Let the object be there."""
        self._writer.native.commit()

    def discard(self) -> None:
        """Leave what was there as it was."""
        self._writer.native.discard()

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if kind is not None:
            self._drop()
        self.close()

    def __del__(self) -> None:
        # It was not declared complete.
        if not self.closed:
            self._drop()
            self.close()

    def _drop(self) -> None:
        self._autocommit = False
        self._writer.dropped = True
        self.discard()


class RawWriter(io.RawIOBase):
    """Passes on what it is given, until its target is closed."""

    mode = "wb"

    def __init__(self, native: _native.Writer, name: str) -> None:
        super().__init__()
        self.native = native
        self.name = name
        self.dropped = False
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, content: Any, /) -> int:
        piece = bytes(memoryview(content)[:_PIECE])
        if not self.dropped:
            self.native.write(piece)
        self._position += len(piece)
        return len(piece)
