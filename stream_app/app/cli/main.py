"""The command line: finds and runs the verb, and turns the outcome into an exit code.

Each verb is a module (see `VerbModule`). Only the module of the given verb is imported, so ``read
--help`` neither waits for Spark nor needs Java.

Exit codes:

* 0: the verb succeeded.
* 1: the verb failed but may succeed when it is repeated, or `check` found a problem.
* 2: only an operator can fix the cause, such as wrong arguments, a missing table or a damaged file.
  `errors` lists the classes.
* 3: `check` found nothing wrong, but could not compare everything; or rows wait for a compaction.
* 130: Ctrl-C ended the verb.
* 141: the reader of the output has gone away, as in ``read TABLE | head``.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Protocol, cast

from stream_app import __version__
from stream_app.app.cli.verb_list import VERBS, Verb
from stream_app.app.config.secrets import Secrets, hiding
from stream_app.app.config.settings import environment_secrets
from stream_app.app.observe.channels.job_log import quiet_libraries
from stream_app.errors import FAILED, OPERATOR_NEEDED, StreamAppError
from stream_app.table.storage_errors import storage_error

INTERRUPTED_EXIT = 130
READER_GONE = 141
"""The exit code that a shell reports for a program ended by SIGPIPE."""


_EPILOG = """\
exit codes: 0 done; 1 failed, may be tried again; 2 only an operator can fix it;
  3 not everything was compared, or rows wait; 130 ended by Ctrl-C
`stream-app VERB --help` shows each verb's arguments, with examples."""


class VerbModule(Protocol):
    """The members of a verb's module; the first two are help texts."""

    DESCRIPTION: str
    EPILOG: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the verb's arguments."""
        ...

    def run(self, args: argparse.Namespace) -> int:
        """Run the verb; return the exit code."""
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
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without Unicode
    quiet_libraries()
    with hiding(Secrets(environment_secrets(os.environ))):
        return _run_to_exit_code(argv, verbs, program)


def verb_module(argv: Sequence[str], verbs: tuple[Verb, ...] = VERBS) -> VerbModule | None:
    """Import the verb with which a command line begins; return None if it begins with no verb."""
    verb = _find_verb(argv, verbs)
    return None if verb is None else cast(VerbModule, importlib.import_module(verb.module))


def _find_verb(argv: Sequence[str], verbs: tuple[Verb, ...]) -> Verb | None:
    return next((verb for verb in verbs if argv and verb.name == argv[0]), None)


def _run_to_exit_code(argv: Sequence[str], verbs: tuple[Verb, ...], program: str) -> int:
    """Run the verb, and report its error."""
    try:
        return _run(argv, verbs, program)
    except KeyboardInterrupt:
        return INTERRUPTED_EXIT
    except BrokenPipeError:
        # Python would try to flush stdout at exit and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except StreamAppError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except OSError as error:
        problem = storage_error(error)
        print(problem, file=sys.stderr)
        return problem.exit_code
    except Exception:
        traceback.print_exc()
        return FAILED


def _run(argv: Sequence[str], verbs: tuple[Verb, ...], program: str) -> int:
    verb = _find_verb(argv, verbs)
    module = verb_module(argv, verbs)
    parser = _parser(verb, module, verbs, program)
    try:
        args = parser.parse_args(argv)
    except SystemExit as parser_exit:  # argparse has printed the reason, or the help
        return parser_exit.code if isinstance(parser_exit.code, int) else OPERATOR_NEEDED
    if module is None:  # parse_args refuses every other word
        parser.print_help(sys.stderr)
        return OPERATOR_NEEDED
    code = module.run(args)
    sys.stdout.flush()
    return code


class _WideHelp(argparse.RawDescriptionHelpFormatter):
    """A formatter of help that gives each verb one line."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=18)
        self._action_max_length = 13  # argparse forgets that verbs are indented


def _parser(
    chosen_verb: Verb | None, module: VerbModule | None, verbs: tuple[Verb, ...], program: str
) -> argparse.ArgumentParser:
    """Return the parser of the whole command line, with only the arguments of the given verb."""
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
        if verb is chosen_verb and module is not None:
            subparser = parsers.add_parser(
                verb.name,
                description=module.DESCRIPTION,
                epilog=module.EPILOG,
                formatter_class=argparse.RawDescriptionHelpFormatter,
                allow_abbrev=False,
            )
            module.add_arguments(subparser)
        else:
            parsers.add_parser(verb.name, help=verb.summary)
    return parser
