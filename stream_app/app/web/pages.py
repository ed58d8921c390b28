"""Pages as HTML: templates, filled from what a site shows. Every value is escaped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import escape

from stream_app import __version__
from stream_app.app.output.age_text import age_text
from stream_app.app.output.listing import size_text, time_text
from stream_app.app.output.text_table import visible
from stream_app.errors import StreamAppError


def _page_environment() -> Environment:
    found = Environment(
        loader=PackageLoader("stream_app.app.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "size": size_text,
        "age": age_text,
        "visible": lambda value: visible(str(value)),
        "lines": lambda text: "\n".join(visible(line.strip()) for line in str(text).splitlines()),
        "payload": _payload,
    }
    found.tests |= {"known_in": _known_in, "error": lambda it: isinstance(it, StreamAppError)}
    found.globals |= {"time_text": time_text, "version": __version__}
    return found


def _known_in(name: str, rows: Sequence[object]) -> bool:
    """Whether a row has a value of this name."""
    return any(getattr(row, name) is not None for row in rows)


def _payload(data: bytes | None) -> str:
    """A message as text, without the schema that a converter may have put before its values."""
    if data is None:
        return "null"
    with suppress(ValueError, RecursionError):
        told = json.loads(data)
        if isinstance(told, dict) and told.keys() == {"schema", "payload"}:
            return json.dumps(told["payload"], ensure_ascii=False)
    return data.decode(errors="backslashreplace")


_ENVIRONMENT = _page_environment()


def escaped(text: str) -> str:
    """A text as it stands in a page."""
    return str(escape(text))


def page(template: str, /, **values: Any) -> str:
    """A page by the name of its template."""
    return _ENVIRONMENT.get_template(f"{template}.html").render(**values)
