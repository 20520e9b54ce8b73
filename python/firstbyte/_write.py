"""Files for writing an object from beginning to end. `open` returns them for the modes "w" and "x",
and the fsspec file system opens them.

The whole object appears when the file is closed. If the `with` block ends with an error, or the
file is never closed, an existing object stays unchanged.
"""

from __future__ import annotations

import io
import warnings

from firstbyte import _native
from firstbyte._typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

# Number of bytes that a writer collects before it passes them on.
_PIECE = 1 << 20


class _Discarded(io.IOBase):
    """A file being written, as bytes or text. What was written is discarded unless the file is
    closed.
    """

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
            # After detach(), the underlying file belongs to the caller.
            return
        if not is_closed:
            try:
                _warn(self)
            finally:
                # The warning may have become an exception. Even then, discard what was written.
                self.discard()


class WriteFile(_Discarded, io.BufferedWriter):
    """An object being written. The complete object appears when the file is closed. If the `with`
    block ends with an error, an existing object stays unchanged.
    """

    def __init__(self, raw: RawWriter, autocommit: bool = True, size: int = _PIECE) -> None:
        """Not called directly: use `firstbyte.open`."""
        super().__init__(raw, size)
        self.writer = raw
        self.autocommit = autocommit

    def close(self) -> None:
        """Write the remaining bytes. The object then appears, unless the file is part of a
        transaction.
        """
        if not self.closed:
            try:
                super().close()
            except BaseException:
                self.writer.native.discard()
                raise
            if self.autocommit:
                self.commit()

    def commit(self) -> None:
        """Close the file if it is open, and make the object appear at its location."""
        if not self.closed:
            self.autocommit = False
            self.close()
        self.writer.native.commit()

    def discard(self) -> None:
        """Close the file. What was at the location before stays unchanged."""
        self.autocommit = False
        self.writer.dropped = True
        self.writer.native.discard()
        self.close()


class TextWriteFile(_Discarded, io.TextIOWrapper):
    """An object being written as text. As with `WriteFile`, the complete object appears on close().
    """

    def __init__(
        self, file: WriteFile, encoding: str | None, errors: str | None, newline: str | None, line_buffering: bool
    ) -> None:
        """Not called directly: use `firstbyte.open`."""
        # For UTF-16 and UTF-32, Python writes a byte order mark only to a seekable file at position
        # 0. So the writer claims to be seekable while Python looks.
        file.writer.seeks = True
        super().__init__(file, encoding, errors, newline, line_buffering)
        file.writer.seeks = False
        self._file = file

    def close(self) -> None:
        """Write the remaining text, and make the object appear. If writing fails, discard
        everything.
        """
        if not self.closed:
            try:
                self.flush()
            except BaseException:
                self._file.discard()
                raise
        super().close()

    @property
    def autocommit(self) -> bool:
        """True if the object appears on close()."""
        return self._file.autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        self._file.autocommit = value

    def commit(self) -> None:
        """Close the file if it is open, and make the object appear at its location."""
        if not self.closed:
            self.autocommit = False
            self.close()
        self._file.commit()

    def discard(self) -> None:
        """Close this file and the one below it. What was at the location before stays unchanged."""
        self._file.discard()


class RawWriter(io.RawIOBase):
    """Passes bytes to the native writer, until the file is discarded."""

    def __init__(self, native: _native.Writer | Compressor, name: str, mode: str) -> None:
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


class Compressor:
    """Compresses the bytes of an object. Takes the place of the native writer.

    Most compressors do not close the file that they write to, so this class closes it.
    """

    def __init__(self, raw: RawWriter, compress: Callable[..., Any]) -> None:
        """Not called directly. `compress` is a function of fsspec's `compr`."""
        self._file = WriteFile(raw)
        self._compressed = compress(self._file, mode="w")

    def write(self, content: bytes) -> None:
        self._compressed.write(content)

    def commit(self) -> None:
        """Write what the compressor still holds, and make the object appear."""
        try:
            self._compressed.close()
        except BaseException:
            self.discard()
            raise
        self._file.close()

    def discard(self) -> None:
        """Close the compressor and the file. What was at the location before stays unchanged."""
        self._file.writer.dropped = True
        try:
            self._compressed.close()
        except Exception:
            # Bytes that the compressor could not write are discarded, too.
            pass
        self._file.discard()


def wrap(
    raw: RawWriter, buffering: int, text: tuple[str | None, str | None, str | None] | None
) -> WriteFile | TextWriteFile:
    """Make the file object for an object being written. It is binary if `text` is None. Otherwise
    it is a text file, and `text` has its `encoding`, `errors` and `newline`.
    """
    file = WriteFile(raw, size=buffering if buffering > 1 else _PIECE)
    if text is None:
        return file
    return TextWriteFile(file, *text, buffering == 1)


def _warn(file: _Discarded) -> None:
    """Warn with a `ResourceWarning`, as Python's own files do, that unclosed content is discarded.
    """
    warnings.warn(
        f"unclosed file {file!r}: what was written to it is discarded", ResourceWarning, stacklevel=3, source=file
    )
