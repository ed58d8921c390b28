"""Sends HTTP requests only to the address that the user has configured.

A redirect is an error, because the request's login, signature and body must reach only the
configured host. The length and the duration of a response are bounded, too.

`urllib.request` alone would send a request's headers to any host that a redirect names.
"""

from __future__ import annotations

import time
import urllib.request
from http.client import HTTPResponse
from typing import Any

_CHUNK_SIZE = 1 << 16


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow no redirect, so that it becomes an `HTTPError`."""


_OPENER = urllib.request.build_opener(_NoRedirects)


class LongResponseError(ValueError):
    """A response is longer than its limit."""


def send(request: urllib.request.Request, *, timeout_s: float) -> HTTPResponse:
    """Send a request and return its response, whose body the caller still has to read.

    Args:
        timeout_s: the limit of each wait.

    Raises:
        HTTPError: the status is not 2xx; a redirect has the status 3xx.
        OSError, HTTPException: no response arrives.
    """
    response = _OPENER.open(request, timeout=timeout_s)
    assert isinstance(response, HTTPResponse)
    return response


def response_body(request: urllib.request.Request, *, timeout_s: float, bytes_max: int) -> bytes:
    """Send a request and return the body of its response.

    Args:
        timeout_s: the limit of each wait; the whole response may take three times as long.

    Raises:
        HTTPError, HTTPException, OSError: as `send`, or the response takes too long.
        LongResponseError: the response has more bytes.
    """
    deadline_s = time.monotonic() + 3 * timeout_s
    chunks: list[bytes] = []
    size = 0
    with send(request, timeout_s=timeout_s) as response:
        while chunk := response.read1(_CHUNK_SIZE):
            chunks.append(chunk)
            size += len(chunk)
            if size > bytes_max:
                raise LongResponseError(f"the response has more than {bytes_max} bytes")
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"the response takes more than {3 * timeout_s:.0f} s")
    return b"".join(chunks)
