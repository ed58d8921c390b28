"""A log of JSON lines: one object a record, exceptions included."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from stream_app.log_facts import current_facts


class JsonLines(logging.Formatter):
    """``time``, ``level``, ``logger``, ``message``; then what the line is about (`log_facts`).

    ``exception`` has the trace of an error.
    """

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **current_facts(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        elif record.exc_text:
            line["exception"] = record.exc_text  # without secrets
        return json.dumps(line, ensure_ascii=False, default=str)
