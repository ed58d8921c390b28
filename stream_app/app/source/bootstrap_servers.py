"""Parses a list of Kafka bootstrap servers, ``HOST:PORT,HOST:PORT``, and tries to reach one.

Kafka's clients retry an unreachable server for minutes, instead of reporting why.
"""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from stream_app.clock import Clock, SystemClock
from stream_app.errors import SourceError, UsageError

BROKER_TIMEOUT_S = 15.0
_SHARE_MIN_S = 0.5
"""The minimum time that each server gets for a connection."""


def parse_bootstrap_servers(text: str, where: str) -> dict[str, tuple[str, int]]:
    """Return text → (host, port) for each server of the list.

    Args:
        where: the argument or configuration key that has the list, for errors.

    Raises:
        UsageError: an entry is not HOST:PORT, or the list is empty.
    """
    servers: dict[str, tuple[str, int]] = {}
    for server in filter(None, map(str.strip, text.split(","))):
        try:
            parts = urlsplit(f"//{server}")
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if host is None or port is None:
            raise UsageError(
                f"{server!r} is not HOST:PORT", where=where, fix="write it as 127.0.0.1:9092"
            )
        servers[server] = host, port
    if not servers:
        raise UsageError("no Kafka broker is named", where=where, fix="give HOST:PORT of one")
    return servers


def reachable_servers(
    bootstrap_servers: str,
    timeout_s: float = BROKER_TIMEOUT_S,
    clock: Clock | None = None,
    section: str = "source",
) -> list[str]:
    """Return the servers from the first one that accepts a connection.

    Args:
        timeout_s: the timeout of all attempts together.
        clock: the clock for timeouts; None is the machine's.
        section: the section of the configuration that names the servers, for errors.

    Raises:
        SourceError: none of them accepts a connection in time.
    """
    clock = clock or SystemClock()
    deadline = clock.steady_seconds() + timeout_s
    servers = parse_bootstrap_servers(bootstrap_servers, f"{section}.bootstrap-servers")
    reasons: list[str] = []
    for server, address in servers.items():
        unasked_count = len(servers) - len(reasons)
        share_s = max(_SHARE_MIN_S, (deadline - clock.steady_seconds()) / (unasked_count + 1))
        reason = _connection_problem(address, share_s)
        if reason is None:
            return list(servers)[len(reasons) :]
        reasons.append(f"{server}: {reason}")
    raise SourceError(
        "no Kafka broker can be reached: " + "; ".join(reasons),
        where=f"{section}.bootstrap-servers",
        fix="see that the broker runs and that HOST:PORT is right (./run.sh broker FOLDER starts "
        "one for trials)",
    )


def _connection_problem(address: tuple[str, int], timeout_s: float) -> str | None:
    try:
        socket.create_connection(address, timeout=timeout_s).close()
    except socket.gaierror:
        return "the host's name is unknown"
    except TimeoutError:
        return f"no answer within {timeout_s:.0f} s"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return None
