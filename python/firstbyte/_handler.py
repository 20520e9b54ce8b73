"""The handler that `arrow_filesystem` gives to pyarrow. Only that function imports this module,
which imports pyarrow.
"""

from typing import Any

from pyarrow import PythonFile
from pyarrow.fs import FSSpecHandler


class Handler(FSSpecHandler):  # type: ignore[misc,unused-ignore]
    """Opens a file without a request that checks first whether it exists."""

    def open_input_file(self, path: str) -> Any:
        """Open a file for reading at any offset."""
        return PythonFile(self.fs.open(path), mode="r")

    open_input_stream = open_input_file
