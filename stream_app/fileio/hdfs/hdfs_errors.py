"""Converts errors of the HDFS client into those of the operating system.

The client raises a `RuntimeError` for most refusals of a NameNode. Its text has the name and the
stack of the Java exception.

Source: hdfs-native `python/src/error.rs`.
"""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Iterator

_TRANSIENT = re.compile(
    r"StandbyException|RetriableException|SafeModeException|java\.io\.IOException"
    r"|DataTransferError|BlocksNotFound|OperationFailed"
)
_ERROR_NUMBERS = {
    "AccessControlException": errno.EACCES,
    "NSQuotaExceededException": errno.EDQUOT,
    "DSQuotaExceededException": errno.EDQUOT,
    "PathIsNotEmptyDirectoryException": errno.ENOTEMPTY,
}


@contextlib.contextmanager
def as_os_errors(path: str) -> Iterator[None]:
    """Convert the client's errors to those of the operating system."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        raise os_error(error, path) from None


def is_transient(error: Exception) -> bool:
    """Return whether a retry of the request may succeed soon."""
    if isinstance(error, OSError):
        # Errors with errno come from this package or describe files. Errors without errno come from
        # the network.
        file_errors = (FileNotFoundError, FileExistsError, IsADirectoryError)
        return error.errno is None and not isinstance(error, file_errors)
    return _TRANSIENT.search(name_and_text(error)[0]) is not None


def os_error(error: Exception, path: str) -> OSError:
    """Convert an error to an `OSError`; an `OSError` stays unchanged."""
    if isinstance(error, OSError) and error.errno is not None:
        return error
    name, text = name_and_text(error)
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, text, path)
    if isinstance(error, FileExistsError):
        return FileExistsError(errno.EEXIST, text, path)
    error_number = _ERROR_NUMBERS.get(name.rpartition(".")[2], errno.EIO)
    # Python chooses the class by errno.
    return OSError(error_number, text, path)


def name_and_text(error: Exception) -> tuple[str, str]:
    """Return the kind of an error, and its message without Java's stack."""
    text = re.split(r"\n\s+at |\\n\\tat ", str(error))[0]
    match = re.match(r'(?:Fatal)?RPCError\("([\w.$]+)", "(.*)', text, re.DOTALL)
    if match:
        return match[1], f"{match[1].rpartition('.')[2]}: {match[2]}".replace('\\"', '"')
    client_error = re.fullmatch(r'(\w+)\("(.*)"\)', text, re.DOTALL)
    return (client_error[1], client_error[2]) if client_error else ("", text)
