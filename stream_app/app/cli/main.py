"""The command line: finds the verb, runs it, and turns what happened into an exit code.

A verb is a module with ``add_parser(verbs)`` and ``run(args) -> int``. Only the verb that is asked
for is imported, so that ``read --help`` neither waits for Spark nor needs Java.

Exit codes: 0 done. 1: it failed and may succeed when it is repeated, or `check` found something. 2:
only a person can repair it, such as wrong arguments, a missing table or a damaged file (`errors`
has the classes). 130: ended by Ctrl-C. 141: the reader of the output is gone (as in ``read TABLE |
head``).
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from stream_app import __version__
from stream_app.app.config.secrets import Secrets, hiding
from stream_app.app.config.settings import environment_secrets
from stream_app.app.observe.monitoring.job_log import quiet_libraries
from stream_app.errors import FAILED, PERSON_NEEDED, StreamAppError
from stream_app.table.storage_errors import storage_error

INTERRUPTED = 130
READER_GONE = 141
"""What a shell reports of a program that SIGPIPE ended."""


@dataclass(frozen=True, slots=True)
class Verb:
    """What the command line knows of a verb before its module is imported."""

    name: str
    module: str
    summary: str


VERBS = (
    Verb(
        "demo",
        "stream_app.demo.demo",
        "watch a shop's database become tables, ALTER and crash included",
    ),
    Verb(
        "ingest",
        "stream_app.app.cli.verbs.ingest",
        "run the job: Kafka CDC into a Paimon table, or a whole database",
    ),
    Verb(
        "doctor",
        "stream_app.app.cli.verbs.doctor",
        "look at all that a job needs, and say what to mend",
    ),
    Verb("broker", "stream_app.app.cli.verbs.broker", "run a Kafka broker for trials"),
    Verb("status", "stream_app.app.cli.verbs.status", "show how far a job is, table by table"),
    Verb("web", "stream_app.app.cli.verbs.web", "show tables in a browser"),
    Verb("top", "stream_app.app.cli.verbs.top", "watch tables in a terminal"),
    Verb(
        "resume",
        "stream_app.app.cli.verbs.resume",
        "let a job try tables again that an error holds back",
    ),
    Verb("compact", "stream_app.app.cli.verbs.compact", "compact a table outside of its job"),
    Verb("read", "stream_app.app.cli.verbs.read", "print a table's rows"),
    Verb("changelog", "stream_app.app.cli.verbs.changelog", "print a table's changes"),
    Verb(
        "expire-snapshots",
        "stream_app.app.cli.verbs.upkeep.expire_snapshots",
        "delete old snapshots, and the files that only they need",
    ),
    Verb(
        "expire-partitions",
        "stream_app.app.cli.verbs.upkeep.expire_partitions",
        "drop expired partitions",
    ),
    Verb(
        "inspect",
        "stream_app.app.cli.verbs.inspect",
        "show snapshots, files and levels of a table",
    ),
    Verb("check", "stream_app.app.cli.verbs.check", "check that a table is sound"),
    Verb(
        "quarantine",
        "stream_app.app.cli.verbs.quarantine",
        "records that could not be taken: list, show, replay, drop",
    ),
    Verb(
        "backfill",
        "stream_app.app.cli.verbs.backfill",
        "read a table's topics again, and write what differs",
    ),
    Verb(
        "create-tag",
        "stream_app.app.cli.verbs.upkeep.create_tag",
        "name a version, and keep it from expiring",
    ),
    Verb(
        "delete-tag",
        "stream_app.app.cli.verbs.upkeep.delete_tag",
        "delete tags and the files that only they need",
    ),
    Verb("init", "stream_app.app.cli.verbs.init", "write a configuration from a topic's messages"),
    Verb(
        "alter",
        "stream_app.app.cli.verbs.upkeep.alter",
        "change a table's columns, options and comments",
    ),
    Verb(
        "rollback-to", "stream_app.app.cli.verbs.upkeep.rollback", "roll back to an earlier version"
    ),
    Verb(
        "drop-partition",
        "stream_app.app.cli.verbs.upkeep.drop_partition",
        "delete partitions' rows",
    ),
    Verb("truncate", "stream_app.app.cli.verbs.upkeep.truncate", "delete all rows of a table"),
    Verb(
        "remove-orphan-files",
        "stream_app.app.cli.verbs.upkeep.remove_orphan_files",
        "delete orphans: files that no version names",
    ),
)
_EPILOG = """\
exit codes: 0 done; 1 failed, may be tried again; 2 only a person can repair it; 130 ended by Ctrl-C
`stream-app VERB --help` shows each verb's arguments, with examples."""


class VerbModule(Protocol):
    """What a verb's module holds."""

    def add_parser(self, verbs: Any) -> argparse.ArgumentParser:
        """Add the verb's parser to the command line's."""
        ...

    def run(self, args: argparse.Namespace) -> int:
        """Do it; the exit code."""
        ...


def main(
    argv: Sequence[str], *, verbs: tuple[Verb, ...] = VERBS, program: str = "stream-app"
) -> int:
    """Run one command line.

    Args:
        argv: the words after the program's name.

    Returns:
        The exit code.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that knows no Unicode
    quiet_libraries()
    with hiding(Secrets(environment_secrets(os.environ))):
        return _told(argv, verbs, program)


def exit_code(error: BaseException) -> int:
    """The process's exit code after an error."""
    return error.exit_code if isinstance(error, StreamAppError) else FAILED


def _told(argv: Sequence[str], verbs: tuple[Verb, ...], program: str) -> int:
    """Run it, and tell what goes wrong."""
    try:
        return _run(argv, verbs, program)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Python would try to flush stdout at exit and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except StreamAppError as error:
        print(error, file=sys.stderr)
        return exit_code(error)
    except OSError as error:
        found = storage_error(error)
        print(found, file=sys.stderr)
        return found.exit_code
    except Exception:
        traceback.print_exc()
        return FAILED


def _run(argv: Sequence[str], verbs: tuple[Verb, ...], program: str) -> int:
    wanted = next((verb for verb in verbs if argv and verb.name == argv[0]), None)
    module = None if wanted is None else cast(VerbModule, importlib.import_module(wanted.module))
    parser = _parser(wanted, module, verbs, program)
    try:
        args = parser.parse_args(argv)
    except SystemExit as ended:  # argparse has said why, or has shown the help
        return ended.code if isinstance(ended.code, int) else PERSON_NEEDED
    if module is None:  # parse_args refuses every other word
        parser.print_help(sys.stderr)
        return PERSON_NEEDED
    code = module.run(args)
    sys.stdout.flush()
    return code


class _WideHelp(argparse.RawDescriptionHelpFormatter):
    """Keeps each verb and its meaning on one line."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=18)
        self._action_max_length = 13  # argparse forgets that verbs are indented


def _parser(
    wanted: Verb | None, module: VerbModule | None, verbs: tuple[Verb, ...], program: str
) -> argparse.ArgumentParser:
    """The whole command line, with the arguments of the wanted verb only."""
    parser = argparse.ArgumentParser(
        prog=program,
        description="CDC from Kafka into Apache Paimon tables, compacted while it is written.",
        epilog=_EPILOG,
        formatter_class=_WideHelp,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"stream-app {__version__}")
    parsers = parser.add_subparsers(metavar="VERB", title="verbs")
    for verb in verbs:
        if verb is wanted and module is not None:
            module.add_parser(parsers)
        else:
            parsers.add_parser(verb.name, help=verb.summary)
    return parser
