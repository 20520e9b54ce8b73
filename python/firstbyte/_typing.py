"""What the package's annotations take from `typing` and `collections.abc`, without importing those.

Importing `typing` takes longer than all else that `import firstbyte` does, and a function that
starts cold pays it. Type checkers take any variable called `TYPE_CHECKING` for true. A program that
runs never evaluates the annotations, so there the names stand for nothing, and the two that are
called do nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable as Callable
    from collections.abc import Iterator as Iterator
    from typing import Any as Any
    from typing import AnyStr as AnyStr
    from typing import BinaryIO as BinaryIO
    from typing import Literal as Literal
    from typing import cast as cast
    from typing import overload as overload
else:
    Any = AnyStr = BinaryIO = Callable = Iterator = Literal = None

    def cast(kind, value):
        return value

    def overload(function):
        return function
