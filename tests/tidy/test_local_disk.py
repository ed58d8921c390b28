"""Only `local_disk` looks up the local disk, so one variable moves all of our files there."""

from __future__ import annotations

import re

from tests.tidy.project_files import modules, text_of

_NEW = re.compile(
    r"tempfile\.(?:gettempdir|(?:mkdtemp|mkstemp|\w*Temporary\w+)\((?![^)]*\bdir=))(?!\[)"
)


def test_no_other_module_asks_the_system_for_temporary_files() -> None:
    asking = [name for name in modules("stream_app") if _NEW.search(text_of(name))]
    assert asking == ["stream_app/process/local_disk.py"]
