"""Passes the events of the native half to `logging`, to loggers below `firstbyte`.

A thread passes the events on. The thread starts at the first call of this package after the program
has set the level INFO or DEBUG, so a program that logs nothing has no such thread.
"""

from __future__ import annotations

import atexit
import os
import sys
from _thread import allocate_lock

from firstbyte import _native
from firstbyte._typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading

_worker: threading.Thread | None = None
_lock = allocate_lock()


def begin_logging() -> None:
    """Start the thread, if the program has set a level at which events are logged."""
    # A program that has not imported `logging` cannot have set a level.
    logging = sys.modules.get("logging")
    if _worker is None and logging is not None and logging.getLogger("firstbyte").isEnabledFor(logging.INFO):
        with _lock:
            if _worker is None:
                _start(logging.getLogger("firstbyte").getEffectiveLevel())


def _start(level: int) -> None:
    # This import is fast, because `logging` has already imported `threading`.
    import threading

    global _worker
    _native.log_begin(max(10, min(level, 50)))
    _worker = threading.Thread(target=_pass_on, name="firstbyte-log", daemon=True)
    _worker.start()


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
    global _worker, _lock
    _worker, _lock = None, allocate_lock()


atexit.register(_end)
os.register_at_fork(after_in_child=_after_fork)
