"""Draws the demo's screen: ``python -m tests.support.pages.demo_picture docs/start/demo.svg``.

It runs the demo in the repository's folder, and keeps what it prints as an SVG.
The SVG needs no fonts from elsewhere.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from stream_app.demo.demo import add_arguments, run
from stream_app.demo.progress_panel import WIDTH

_THEME = TerminalTheme(
    (24, 25, 31),
    (216, 217, 221),
    [
        *[(24, 25, 31), (224, 90, 90), (120, 190, 100), (222, 180, 90)],
        *[(100, 150, 230), (200, 120, 220), (90, 190, 200), (216, 217, 221)],
    ],
)
_FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">
<style>
.{unique_id}-matrix {{
  font: {char_height}px "DejaVu Sans Mono", Menlo, Consolas, monospace;
  line-height: {line_height}px; white-space: pre;
}}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
<rect width="{width}" height="{height}" rx="8" fill="#18191f"/>
<text class="{unique_id}-matrix" fill="#8b8c91" x="{terminal_x}" y="28">$ ./run.sh demo</text>
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def main(path: Path) -> int:
    """Run the demo and draw it; return the demo's exit code."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    console = Console(record=True, width=WIDTH + 2, force_terminal=False)
    code = run(parser.parse_args([]), console)
    drawn = console.export_svg(theme=_THEME, code_format=_FORMAT, unique_id="demo")
    path.write_text("\n".join(line.rstrip() for line in drawn.splitlines()) + "\n", "utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
