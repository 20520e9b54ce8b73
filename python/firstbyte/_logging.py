"""Passes the events of the native half to `logging`, to loggers below `firstbyte`.

A thread passes the events on. The thread starts at the first call of this package after the program
has set the level INFO or DEBUG, so a program that logs nothing has no such thread. A later call
follows a level that has changed.
"""

from __future__ import annotations

import atexit
import os
import sys
from _thread import allocate_lock

from firstbyte import _native
from firstbyte._typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging
    import threading

_worker: threading.Thread | None = None
_lock = allocate_lock()
# Level from which events are passed on. A new process passes on none.
_level = 50
# Number of loggers in the program when the names of the package's loggers were last collected, and
# these names.
_known: tuple[int, list[str]] = (0, [])


def begin_logging() -> None:
    """Pass on the events of the levels that the program has set. Called before each operation, so
    a level may be changed at any time.
    """
    # A program that has not imported `logging` cannot have set a level.
    logging = sys.modules.get("logging")
    if logging is None:
        return
    level = _least_level(logging.getLogger("firstbyte").manager)
    if level != _level and (_worker is not None or level <= 20):
        with _lock:
            _start(level)


def _least_level(manager: logging.Manager) -> int:
    """Return the least level of the logger `firstbyte` and of the loggers below it."""
    global _known
    loggers = manager.loggerDict
    if len(loggers) != _known[0]:
        _known = len(loggers), [name for name in list(loggers) if name == "firstbyte" or name.startswith("firstbyte.")]
    # A name without a logger of its own has a placeholder, which has no level.
    methods = [getattr(loggers[name], "getEffectiveLevel", None) for name in _known[1]]
    least: int = min(level_of() for level_of in methods if level_of)
    return min(50, max(10, least, manager.disable + 1))


def _start(level: int) -> None:
    # This import is fast, because `logging` has already imported `threading`.
    import threading

    global _level, _worker
    _level = level
    if _worker is None:
        _native.log_begin(level)
        _worker = threading.Thread(target=_pass_on, name="firstbyte-log", daemon=True)
        _worker.start()
    else:
        _native.log_level(level)


def _pass_on() -> None:
    is_over = False
    while not is_over:
        events, dropped, is_over = _native.log_next()
        for level, target, fields in events:
            _log(level, target, fields)
        if dropped:
            _log(30, "firstbyte", f'{{"message": "{dropped} events were dropped"}}')


def _log(level: int, target: str, text: str) -> None:
    import json
    import logging

    logger = logging.getLogger(target.replace("firstbyte_", "firstbyte.").replace("::", "."))
    if logger.isEnabledFor(level):
        fields = json.loads(text)
        message = fields.pop("message", "")
        details = " ".join(f"{name}={value}" for name, value in fields.items())
        # The name of an object may contain a line feed, which would forge a line of the log.
        text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in f"{message} {details}".strip())
        logger.log(level, "%s", text, extra={"fields": fields})


def _end() -> None:
    """Pass on the remaining events. The thread must leave native code before the interpreter ends.
    """
    if _worker is not None:
        _native.log_end()
        _worker.join()


def _after_fork() -> None:
    """Forget the parent's thread, which does not exist in the child. The child starts its own."""
    global _worker, _lock, _level
    _worker, _lock, _level = None, allocate_lock(), 50


atexit.register(_end)
os.register_at_fork(after_in_child=_after_fork)
