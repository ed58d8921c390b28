"""Sends HTTP requests only to the address that the user has configured.

A redirect is an error, because the request's login, signature and body must reach only the
configured host. The length and the duration of an answer are bounded, too.

`urllib.request` alone would send a request's headers to any host that a redirect names.
"""

from __future__ import annotations

import time
import urllib.request
from http.client import HTTPResponse
from typing import Any

_CHUNK_BYTES = 1 << 16


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow no redirect, so that it becomes an `HTTPError`."""


_OPENER = urllib.request.build_opener(_NoRedirects)


class LongAnswerError(ValueError):
    """An answer is longer than its limit."""


def send(request: urllib.request.Request, *, timeout_s: float) -> HTTPResponse:
    """Send a request and return its answer, whose body the caller still has to read.

    Args:
        timeout_s: the limit of each wait.

    Raises:
        HTTPError: the status is not 2xx; a redirect has the status 3xx.
        OSError, HTTPException: no answer arrives.
    """
    answer = _OPENER.open(request, timeout=timeout_s)
    assert isinstance(answer, HTTPResponse)
    return answer


def answer_to(request: urllib.request.Request, *, timeout_s: float, bytes_max: int) -> bytes:
    """Send a request and return the body of its answer.

    Args:
        timeout_s: the limit of each wait; the whole answer may take three times as long.

    Raises:
        HTTPError, HTTPException, OSError: as `send`, or the answer takes too long.
        LongAnswerError: the answer has more bytes.
    """
    deadline_s = time.monotonic() + 3 * timeout_s
    chunks: list[bytes] = []
    size = 0
    with send(request, timeout_s=timeout_s) as answer:
        while chunk := answer.read1(_CHUNK_BYTES):
            chunks.append(chunk)
            size += len(chunk)
            if size > bytes_max:
                raise LongAnswerError(f"the answer has more than {bytes_max} bytes")
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"the answer takes more than {3 * timeout_s:.0f} s")
    return b"".join(chunks)
