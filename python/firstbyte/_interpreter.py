"""Raises ImportError outside the main interpreter, before anything native is loaded.

The types of the native module belong to one interpreter. If a second interpreter loaded the module,
both interpreters would share these types, and the types would then work in neither. mod_wsgi runs
applications in subinterpreters by default.
"""

try:
    # Module of Python 3.13 and later.
    import _interpreters as interpreters
except ImportError:
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        # This Python has no subinterpreters.
        interpreters = None

if interpreters is not None and interpreters.get_current() != interpreters.get_main():
    raise ImportError(
        "firstbyte cannot be used in a subinterpreter, only in the main interpreter of a process; "
        "with mod_wsgi, set `WSGIApplicationGroup %{GLOBAL}`",
        name="firstbyte",
    )
