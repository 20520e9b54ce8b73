"""Stand-ins for names of `typing` and `collections.abc` that annotations need.

Importing `typing` takes longer than everything else in `import firstbyte`, and each cold start of a
serverless function would pay for that. A type checker treats any variable named `TYPE_CHECKING` as
true, so it uses the real names. A running program never evaluates the annotations. There the names
are None, `cast` and `overload` do nothing, and a `TypedDict` is a class that has only annotations.
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
