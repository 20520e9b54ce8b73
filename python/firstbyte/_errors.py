"""The exceptions: one class for each kind of failure.

Each class also derives from the built-in exception that a local file would raise, so that `except
FileNotFoundError` works for a bucket as well. The native half raises the exceptions that `error`
makes.
"""

from __future__ import annotations

import errno as numbers

from firstbyte._typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class FirstbyteError(Exception):
    """A failure of firstbyte. docs/errors.md lists the kinds.

    Attributes:
        kind: the kind, such as "not_found"; the same name as in receipts and logs.
        status: the HTTP status, if a server answered.
        request_id: the identifier that the service gave the request.
        host_id: S3's second identifier.
        attempts: how many requests were sent.
        seconds: time since the first request.
    """

    kind: str = "failed"
    status: int | None = None
    request_id: str | None = None
    host_id: str | None = None
    attempts: int | None = None
    seconds: float | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce to a call of `exception_for`. pickle could not find by its name a class that
        `exception_for` has made.
        """
        filename = getattr(self, "filename", None)
        line = getattr(self, "strerror", None) or str(self)
        return exception_for, (self.kind, getattr(self, "errno", None), line, filename, _facts(self))


class NotFoundError(FirstbyteError, FileNotFoundError):
    """There is no such object, file or version."""

    kind = "not_found"


class NoSuchBucketError(NotFoundError):
    """There is no such bucket or container."""

    kind = "no_such_bucket"


class DeniedError(FirstbyteError, PermissionError):
    """The caller has no right to the object."""

    kind = "denied"


class NoCredentialsError(FirstbyteError, PermissionError):
    """Credentials are missing or expired, or could not be obtained."""

    kind = "no_credentials"


class ArchivedError(FirstbyteError, OSError):
    """The object must be restored from an archive first."""

    kind = "archived"


class ChangedError(FirstbyteError, OSError):
    """The object changed while it was read, or since it was planned."""

    kind = "changed"


class ExistsError(FirstbyteError, FileExistsError):
    """The destination exists already, or has changed."""

    kind = "exists"


class DamagedError(FirstbyteError, OSError):
    """The content does not match its checksum or length."""

    kind = "damaged"


class TimedOutError(FirstbyteError, TimeoutError):
    """No answer arrived within the deadline of a request."""

    kind = "timed_out"


class ThrottledError(FirstbyteError, OSError):
    """The service asked to slow down, and kept asking in spite of retries."""

    kind = "throttled"


class UnreachableError(FirstbyteError, ConnectionError):
    """The name does not resolve, or the host accepts no connection."""

    kind = "unreachable"


class DisconnectedError(FirstbyteError, ConnectionError):
    """The connection was lost, or the body ended early."""

    kind = "disconnected"


class CertificateError(FirstbyteError, OSError):
    """A certificate or a host key is not accepted, or a redirect would leave TLS."""

    kind = "certificate"


class ServerError(FirstbyteError, OSError):
    """The server failed."""

    kind = "server_error"


class RefusedError(FirstbyteError, OSError):
    """The server refused the request."""

    kind = "refused"


class BadAnswerError(FirstbyteError, OSError):
    """An answer is not valid, or does not match the request."""

    kind = "bad_answer"


class UnsupportedError(FirstbyteError, OSError):
    """The place does not support the operation."""

    kind = "unsupported"


class BadInputError(FirstbyteError, OSError, ValueError):
    """An argument cannot be used."""

    kind = "bad_input"


class IsDirectoryError(FirstbyteError, IsADirectoryError):
    """There is a directory where an object is needed."""

    kind = "is_directory"


class FullError(FirstbyteError, OSError):
    """A disk is full, or a quota is reached."""

    kind = "full"


class IoError(FirstbyteError, OSError):
    """Another operation of the operating system failed."""

    kind = "io"


class NotMountedError(FirstbyteError, OSError):
    """A directory that a serverless function needs is missing or empty."""

    kind = "not_mounted"


class StoppedError(FirstbyteError, InterruptedError):
    """The caller stopped the operation."""

    kind = "interrupted"


class DeadlineError(FirstbyteError, TimeoutError):
    """The deadline of the run passed."""

    kind = "deadline"


class InternalError(FirstbyteError, OSError):
    """A bug in firstbyte; please report it."""

    kind = "internal"


class FailedError(FirstbyteError, OSError):
    """Any other failure."""


CLASSES: tuple[type[FirstbyteError], ...] = (
    NotFoundError,
    NoSuchBucketError,
    DeniedError,
    NoCredentialsError,
    ArchivedError,
    ChangedError,
    ExistsError,
    DamagedError,
    TimedOutError,
    ThrottledError,
    UnreachableError,
    DisconnectedError,
    CertificateError,
    ServerError,
    RefusedError,
    BadAnswerError,
    UnsupportedError,
    BadInputError,
    IsDirectoryError,
    FullError,
    IoError,
    NotMountedError,
    StoppedError,
    DeadlineError,
    InternalError,
    FailedError,
)
BY_KIND = {cls.kind: cls for cls in CLASSES}
FACTS = ("status", "request_id", "host_id", "attempts", "seconds")

# Cache of classes that also derive from the built-in class of an errno, such as
# ConnectionRefusedError.
_mixed: dict[tuple[type, type], type] = {}


def _facts(failure: FirstbyteError) -> dict[str, Any]:
    return {name: value for name in FACTS if (value := getattr(failure, name)) is not None}


def exception_for(
    kind: str, number: int | None, text: str, filename: str | None, facts: Mapping[str, Any]
) -> FirstbyteError:
    """Make the exception for a failure of this kind. `number` is the errno of the operating system.
    """
    cls = BY_KIND.get(kind, FailedError)
    failure: FirstbyteError
    if number is None and issubclass(cls, ValueError):
        failure = cls(text)
    else:
        number = numbers.EIO if number is None else number
        builtin = type(OSError(number, ""))
        if not issubclass(cls, builtin):
            pair = cls, builtin
            if pair not in _mixed:
                names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
                _mixed[pair] = type(cls.__name__, pair, names)
            cls = _mixed[pair]
        failure = cls(number, text, filename) if filename is not None else cls(number, text)
    failure.kind = kind
    for name, value in facts.items():
        setattr(failure, name, value)
    return failure
