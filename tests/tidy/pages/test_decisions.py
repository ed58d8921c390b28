"""Each decision in docs/adr has a number, a date and a status, and stands in the overview."""

from __future__ import annotations

import datetime
import re

import pytest

from tests.tidy.project_files import project_files, text_of

PAGES = [name for name in project_files() if re.match(r"docs/adr/\d{4}-.*\.md", name)]
_HEAD = re.compile(r"# (\d+)\. ([^\n]+)\n\nDate: (\d{4}-\d\d-\d\d)\. Status: ([^\n]+)\.\n\n")
_STATUS = re.compile(r"accepted|superseded by \[ADR \d+\]\(\d{4}-[\w-]+\.md\)")
_PARTLY = re.compile(r"accepted; \[ADR (\d+)\]\((\d{4})-[\w-]+\.md\) supersedes [\w ]+")


@pytest.mark.parametrize("page", PAGES)
def test_a_decision_begins_with_its_date_and_status(page: str) -> None:
    head = _HEAD.match(text_of(page))
    assert head, f"{page} begins with '# N. Title', and 'Date: YYYY-MM-DD. Status: accepted.'"
    number, _, date, status = head.groups()
    assert f"{int(number):04d}" == page.rsplit("/", maxsplit=1)[-1][:4]
    assert datetime.date.fromisoformat(date)
    assert _STATUS.fullmatch(status) or _PARTLY.fullmatch(status), status


@pytest.mark.parametrize("page", PAGES)
def test_a_decision_has_its_situation_and_its_alternatives(page: str) -> None:
    for part in ("Situation", "Decision", "What follows", "Alternatives"):
        assert f"\n**{part}" in text_of(page)


def test_numbers_are_consecutive_and_the_overview_has_all() -> None:
    heads = [_HEAD.match(text_of(page)) for page in PAGES]
    listed_decisions = re.findall(
        r"\| \[(\d+)\]\(([^)]+)\) \| (.*?) \|", text_of("docs/adr/index.md")
    )
    assert [int(number) for number, _, _ in listed_decisions] == list(range(1, len(PAGES) + 1))
    assert [(f"docs/adr/{file}", title) for _, file, title in listed_decisions] == [
        (page, head[2]) for page, head in zip(PAGES, heads, strict=True) if head
    ]
