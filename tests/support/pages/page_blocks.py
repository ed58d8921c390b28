"""The code blocks of a page of the documentation, and what the page says that they print.

A block `text` is the output of the block before it. With ``REWRITE=1`` the page gets what really
came out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.suite.datadriven import rewriting

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OUTPUT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of the page.

    Attributes:
        language: the word behind the fence.
        line: of the fence, from 1.
    """

    language: str
    text: str
    line: int


def run_page(path: Path, run: Callable[[Block], str], languages: frozenset[str]) -> None:
    """Run the blocks of these languages in their order, and compare their output.

    Args:
        run: returns what a block has printed.
    """
    page = path.read_text(encoding="utf-8")
    pieces, output, end = [], "", 0
    for fence in _FENCE.finditer(page):
        language, text = fence.groups()
        pieces.append(page[end : fence.start(2)])
        end = fence.end(2)
        if language == OUTPUT:
            text = _tidy(output)
        elif language in languages:
            line = page.count("\n", 0, fence.start()) + 1
            output = run(Block(language=language, text=text, line=line))
        pieces.append(text)
    real = "".join([*pieces, page[end:]])
    if rewriting():
        path.write_text(real, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == real, f"REWRITE=1 rewrites the output of {path}"


def _tidy(output: str) -> str:
    """Return the text without blanks at the ends of lines, which no reader sees."""
    lines = [line.rstrip() for line in output.rstrip().splitlines()]
    return "".join(f"{line}\n" for line in lines)
