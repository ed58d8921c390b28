"""docs/reference/compatibility.md ends with Paimon's documented tables, as jobs judge them."""

from __future__ import annotations

from pathlib import Path

from tests.support.pages.documented_tables import HEADING, documented_section
from tests.support.suite.datadriven import rewriting

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "compatibility.md"


def test_the_page_has_the_tables_of_paimons_documentation() -> None:
    text, section = PAGE.read_text(encoding="utf-8"), documented_section()
    if rewriting():
        text = text.partition(f"\n{HEADING}")[0].rstrip() + "\n\n" + section
        PAGE.write_text(text, encoding="utf-8")
    assert text.endswith(section), "REWRITE=1 writes it again"
    assert section.count("| taken |") > 50
