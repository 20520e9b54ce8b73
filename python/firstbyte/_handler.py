"""What `arrow_filesystem` gives pyarrow. Imported by that alone, since it imports pyarrow."""

from typing import Any

from pyarrow import PythonFile
from pyarrow.fs import FSSpecHandler


class Handler(FSSpecHandler):  # type: ignore[misc,unused-ignore]
    """Opens a file without asking first whether there is one."""

    def open_input_file(self, path: str) -> Any:
        """A file to read at any place."""
        return PythonFile(self.fs.open(path), mode="r")

    open_input_stream = open_input_file
