"""Logs a job on standard error: its own lines, and the useful lines of libraries."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime

from stream_app.app.config.stream_config import LogFormat
from stream_app.epochs.task_errors import readable_error
from stream_app.errors import FAILED, StreamAppError
from stream_app.process.log_fields import current_log_fields

_LOG = logging.getLogger(__name__)
_LIBRARY_LEVELS = {
    # Py4J logs the trace of a failed epoch, which the job itself reports.
    "py4j": logging.CRITICAL,
    # The client's warnings concern its internals ("blocking the event loop"); failures are raised.
    "kafka": logging.ERROR,
}


class JsonFormatter(logging.Formatter):
    """A formatter of records as JSON: ``time``, ``level``, ``logger``, ``message``, `log_fields`.

    ``exception`` has the trace of an error.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one line."""
        time = datetime.fromtimestamp(record.created, UTC)
        fields: dict[str, object] = {
            "time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **current_log_fields(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        elif record.exc_text:
            fields["exception"] = record.exc_text  # without secrets
        return json.dumps(fields, ensure_ascii=False, default=str)


def log_to_stderr() -> None:
    """Set up the log of a job on standard error."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("stream_app").setLevel(logging.INFO)
    quiet_libraries()


def log_as(log_format: LogFormat) -> None:
    """Switch the log to the configured format."""
    if log_format is LogFormat.JSON:
        for handler in logging.getLogger().handlers:
            handler.setFormatter(JsonFormatter())


def log_end(error: BaseException, text: str | None) -> None:
    """Print on standard error why the job ends, in the format of its log.

    Args:
        text: the error's text; None for a bug, whose trace is printed.
    """
    handlers = logging.getLogger().handlers
    if any(isinstance(handler.formatter, JsonFormatter) for handler in handlers):
        _LOG.error(text or "a bug has ended the job", exc_info=None if text else error)
    elif text is None:
        traceback.print_exception(error)
    else:
        print(f"error: {text}", file=sys.stderr)


def run_to_exit_code(work: Callable[[], None]) -> int:
    """Run a job, print its error, and return the process's exit code."""
    try:
        work()
    except (StreamAppError, OSError) as error:
        problem = readable_error(error)
        log_end(error, str(problem))
        return problem.exit_code if isinstance(problem, StreamAppError) else FAILED
    except Exception as error:
        log_end(error, None)
        return FAILED
    return 0


def quiet_libraries() -> None:
    """Silence the log messages that only the developers of a library need."""
    for name, level in _LIBRARY_LEVELS.items():
        logging.getLogger(name).setLevel(level)
