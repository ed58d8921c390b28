"""Parses a list of Kafka bootstrap servers, ``HOST:PORT,HOST:PORT``."""

from __future__ import annotations

from urllib.parse import urlsplit

from stream_app.errors import UsageError


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
