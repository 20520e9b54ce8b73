"""The handler that `arrow_filesystem` passes to pyarrow. This module imports pyarrow, so only that
function imports this module.
"""

from typing import Any

from pyarrow import PythonFile
from pyarrow.fs import FSSpecHandler


class ArrowHandler(FSSpecHandler):  # type: ignore[misc,unused-ignore]
    """Unlike pyarrow's own handler, opens a file without a request that first checks its existence.
    pyarrow gives plain names, so every method here calls a method of the file system that does not
    expand wildcards.
    """

    def open_input_file(self, path: str) -> Any:
        """Open a file for reading at any offset."""
        return PythonFile(self.fs.open(path), mode="r")

    open_input_stream = open_input_file

    def delete_file(self, path: str) -> None:
        """Delete a file."""
        self.fs.rm_file(path)

    def delete_dir(self, path: str) -> None:
        """Delete a directory and everything below it."""
        self.fs.rm_tree(path)

    def _delete_dir_contents(self, path: str, missing_dir_ok: bool) -> None:
        try:
            names = self.fs.listdir(path, detail=False)
        except FileNotFoundError:
            if missing_dir_ok:
                return
            raise
        for name in names:
            self.fs.rm_tree(name)

    def move(self, src: str, dest: str) -> None:
        """Move a file or a directory to exactly the name `dest`."""
        if self.fs.isdir(src):
            self.fs.move_tree(src, dest)
        else:
            self.fs.mv([src], [dest])

    def copy_file(self, src: str, dest: str) -> None:
        """Copy a file to exactly the name `dest`."""
        self.fs.cp_file(src, dest)
