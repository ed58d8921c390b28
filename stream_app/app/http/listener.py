"""The socket at which a server of the job listens."""

from __future__ import annotations

import errno
import os
import socket

from stream_app.app.http.guard import BACKLOG


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Args:
        host: a name, or an address of either version.
        port: 0: any that is free.

    Raises:
        OSError: it cannot listen there.
        OverflowError: the port is none.
    """
    families = {address[0] for address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    family = socket.AF_INET if socket.AF_INET in families else socket.AF_INET6
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:  # its text has the address once more
        raise OSError(error.errno, os.strerror(error.errno or 0)) from None


def is_taken(error: OSError) -> bool:
    """Whether another server has the port."""
    return error.errno == errno.EADDRINUSE
