"""``stream-app broker``: a Kafka broker for trials."""

from __future__ import annotations

import argparse
import signal
from contextlib import suppress
from pathlib import Path

from stream_app.app.launch.embedded_broker import EmbeddedBroker

PORT = 9092


DESCRIPTION = (
    "Run a Kafka broker for trials, at 127.0.0.1, until Ctrl-C.\n"
    "Programs that write to it must create their topics, as Kafka Connect does."
)
EPILOG = "example:\n  stream-app broker /tmp/kafka 9092"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "folder",
        metavar="FOLDER",
        type=Path,
        help="the folder of the topics; it is empty, or has the topics of an earlier run",
    )
    parser.add_argument(
        "port",
        metavar="PORT",
        type=int,
        nargs="?",
        default=PORT,
        help=f"the port of the broker; default: {PORT}",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM.

    Raises:
        SourceError: the broker does not start.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt), EmbeddedBroker(args.folder, port=args.port) as broker:
        print(f"Kafka serves at {broker.bootstrap}; Ctrl-C stops it", flush=True)
        signal.pause()
    return 0
