"""The names that annotations need from `typing` and `collections.abc`, without importing those.

Importing `typing` takes longer than everything else in `import firstbyte`, and a function that
starts cold pays for it. Type checkers treat any variable called `TYPE_CHECKING` as true. A running
program never evaluates the annotations, so the names are None there, `cast` and `overload` do
nothing, and a `TypedDict` is a class with annotations.
"""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable as Callable
    from collections.abc import Collection as Collection
    from collections.abc import Iterable as Iterable
    from collections.abc import Iterator as Iterator
    from collections.abc import Mapping as Mapping
    from typing import Any as Any
    from typing import AnyStr as AnyStr
    from typing import BinaryIO as BinaryIO
    from typing import Literal as Literal
    from typing import TypedDict as TypedDict
    from typing import Unpack as Unpack
    from typing import cast as cast
    from typing import overload as overload
else:
    Any = AnyStr = BinaryIO = Callable = Collection = Iterable = Iterator = Literal = Mapping = Unpack = None

    class TypedDict:
        def __init_subclass__(cls, total=True):
            pass

    def cast(kind, value):
        return value

    def overload(function):
        return function
