"""The handler that `arrow_filesystem` passes to pyarrow. This module imports pyarrow, so only that
function imports this module.
"""

from typing import Any

from pyarrow import PythonFile
from pyarrow.fs import FSSpecHandler


class Handler(FSSpecHandler):  # type: ignore[misc,unused-ignore]
    """Opens a file directly. pyarrow's own handler would first send a request to check that the
    file exists.
    """

    def open_input_file(self, path: str) -> Any:
        """Open a file for reading at any offset."""
        return PythonFile(self.fs.open(path), mode="r")

    open_input_stream = open_input_file
