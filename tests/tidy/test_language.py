"""The language rules of docs/STYLE.md that a test can count: short sentences, and no "who"."""

from __future__ import annotations

import re

import pytest

from tests.tidy.project_files import modules, project_files, text_of

SENTENCE_WORDS_MAX = 25
PAGES = [
    name
    for name in project_files()
    if name.endswith(".md") and (name == "README.md" or name.startswith("docs/"))
]
_NO_ACTOR = re.compile(r"\b(?:who|whom|whoever|he|him|his|is told|are told)\b", re.IGNORECASE)
SAID_AS_EXAMPLES = ("docs/STYLE.md",)
"""Pages that quote what they advise against."""


def paragraphs(text: str) -> list[str]:
    """Prose, without code blocks, tables, headings and footnotes; each list item by itself."""
    found: list[list[str]] = [[]]
    for line in re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL).split("\n"):
        plain = line.strip()
        if not plain or plain.startswith(("|", "#", "![", "[^")) or line.startswith("    "):
            found.append([])
            continue
        if re.match(r"(?:[*-]|\d+\.) ", plain):
            found.append([])
            plain = plain.split(" ", 1)[1]
        found[-1].append(plain)
    return [" ".join(lines) for lines in found if lines]


def long_sentences(text: str) -> list[str]:
    """Sentences of too many words; code in quotes is one word, and so is a list of such code."""
    found = []
    for paragraph in paragraphs(text):
        plain = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "CODE", paragraph))
        plain = re.sub(r"CODE(?:,\s+CODE)+", "CODE", plain)
        for sentence in re.split(r"(?<=[.!?])[\"')*]*\s+", plain):
            if len(re.findall(r"[\w'’-]+", sentence)) > SENTENCE_WORDS_MAX:
                found.append(sentence)
    return found


@pytest.mark.parametrize("page", PAGES)
def test_sentences_of_pages_are_short(page: str) -> None:
    assert long_sentences(text_of(page)) == []


@pytest.mark.parametrize("page", [page for page in PAGES if page not in SAID_AS_EXAMPLES])
def test_pages_name_the_actor(page: str) -> None:
    prose = re.sub(r"\]?\([^()\s]+\.md[^()\s]*\)", "", text_of(page))
    assert [found.group() for found in _NO_ACTOR.finditer(prose)] == []


def test_docstrings_comments_and_messages_name_the_actor() -> None:
    assert [
        f"{name}: {line.strip()}"
        for name in modules("stream_app")
        for line in text_of(name).splitlines()
        if _NO_ACTOR.search(line)
    ] == []


def test_the_counter_counts() -> None:
    words = "word " * SENTENCE_WORDS_MAX
    assert long_sentences(f"{words.strip()}. {words.strip()}.") == []
    assert len(long_sentences(f"* {words}more.\n\n```\n{words}more\n```\n| {words}more |")) == 1
