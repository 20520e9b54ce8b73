"""Refuses to be imported anywhere but in the main interpreter, before anything native is loaded.

The native module's types belong to one interpreter. If a second interpreter loaded them, both would
share them, and neither would work any more. By default mod_wsgi runs applications in
subinterpreters.
"""

try:
    # Python 3.13 and later.
    import _interpreters as interpreters
except ImportError:
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        # This Python cannot make subinterpreters.
        interpreters = None

if interpreters is not None and interpreters.get_current() != interpreters.get_main():
    raise ImportError(
        "firstbyte cannot be used in a subinterpreter, only in the main interpreter of a process; "
        "with mod_wsgi, set `WSGIApplicationGroup %{GLOBAL}`",
        name="firstbyte",
    )
