"""Pages as HTML: templates, filled from what a site shows. Every value is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import escape

from stream_app import __version__
from stream_app.app.output.age_text import age_text
from stream_app.app.output.listing import size_text, value_text
from stream_app.app.output.text_table import visible


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
        "raw": _raw,
    }
    found.tests |= {"known_in": _known_in}
    found.globals |= {"value_text": value_text, "version": __version__}
    return found


def _known_in(name: str, rows: Sequence[object]) -> bool:
    """Whether a row has a value of this name."""
    return any(getattr(row, name) is not None for row in rows)


def _raw(data: bytes | None) -> str:
    return "null" if data is None else data.decode(errors="backslashreplace")


_ENVIRONMENT = _page_environment()


def escaped(text: str) -> str:
    """A text as it stands in a page."""
    return str(escape(text))


def page(template: str, /, **values: Any) -> str:
    """A page by the name of its template."""
    return _ENVIRONMENT.get_template(f"{template}.html").render(**values)
