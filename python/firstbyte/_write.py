"""An object written as a file, from beginning to end: what `open` returns for the modes "w" and
"x", and what an fsspec file system opens for writing.

The whole object appears when the file is closed. If the `with` block ends with an error, or the
file is never closed, the old object stays as it was.
"""

from __future__ import annotations

import io
import warnings

from firstbyte import _native
from firstbyte._typing import Any

# Bytes that a writer collects before it passes them on.
_PIECE = 1 << 20


class _Discarded(io.IOBase):
    """A file being written, as bytes or text. Unless it is closed properly, it is discarded."""

    def discard(self) -> None:
        raise NotImplementedError

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if kind is not None:
            self.discard()
        self.close()

    def __del__(self) -> None:
        try:
            is_closed = self.closed
        except ValueError:
            # After detach(), the underlying file has another owner.
            return
        if not is_closed:
            try:
                _warn(self)
            finally:
                # Warnings may have been turned into exceptions.
                self.discard()


class WriteFile(_Discarded, io.BufferedWriter):
    """An object being written. It appears, complete, when the file is closed; if the block ends
    with an error, the old object stays as it was.
    """

    def __init__(self, raw: RawWriter, autocommit: bool = True, size: int = _PIECE) -> None:
        """Not called directly: use `firstbyte.open`."""
        super().__init__(raw, size)
        self.writer = raw
        self.autocommit = autocommit

    def close(self) -> None:
        """Write the rest. The object then appears, unless it is part of a transaction."""
        if not self.closed:
            try:
                super().close()
            except BaseException:
                self.writer.native.discard()
                raise
            if self.autocommit:
                self.commit()

    def commit(self) -> None:
        """Make the object appear at its location."""
        self.writer.native.commit()

    def discard(self) -> None:
        """Close the file, and leave what was there before as it was."""
        self.autocommit = False
        self.writer.dropped = True
        self.writer.native.discard()
        self.close()


class TextWriteFile(_Discarded, io.TextIOWrapper):
    """An object being written as text. It appears, complete, on close(), as a `WriteFile` does."""

    def __init__(
        self, file: WriteFile, encoding: str | None, errors: str | None, newline: str | None, line_buffering: bool
    ) -> None:
        """Not called directly: use `firstbyte.open`."""
        # A byte order mark is written only at a position known to be the start.
        file.writer.seeks = True
        super().__init__(file, encoding, errors, newline, line_buffering)
        file.writer.seeks = False
        self._file = file

    def close(self) -> None:
        """Write the rest and make the object appear. If the rest cannot be written, discard it all.
        """
        if not self.closed:
            try:
                self.flush()
            except BaseException:
                self._file.discard()
                raise
        super().close()

    def discard(self) -> None:
        """Close the file and the one below it, and leave what was there before as it was."""
        self._file.discard()


class RawWriter(io.RawIOBase):
    """Passes bytes on to the native writer, until the file is discarded."""

    def __init__(self, native: _native.Writer, name: str, mode: str) -> None:
        super().__init__()
        self.native = native
        self.name = name
        self.mode = mode
        self.dropped = False
        self.seeks = False
        self._position = 0

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self.seeks

    def tell(self) -> int:
        return self._position

    def write(self, content: Any, /) -> int:
        piece = bytes(memoryview(content)[:_PIECE])
        if not self.dropped:
            self.native.write(piece)
        self._position += len(piece)
        return len(piece)


def wrap(
    raw: RawWriter, buffering: int, text: tuple[str | None, str | None, str | None] | None
) -> WriteFile | TextWriteFile:
    """Make the file object for an object being written: binary if `text` is None, else text with
    this encoding, `errors` and `newline`.
    """
    file = WriteFile(raw, size=buffering if buffering > 1 else _PIECE)
    if text is None:
        return file
    return TextWriteFile(file, *text, buffering == 1)


def _warn(file: _Discarded) -> None:
    """Warn (`ResourceWarning`) that unclosed content is discarded, as Python's own files do."""
    warnings.warn(
        f"unclosed file {file!r}: what was written to it is discarded", ResourceWarning, stacklevel=3, source=file
    )
