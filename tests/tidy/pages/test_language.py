"""The language rules of docs/develop/style.md that a test can count."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator

import pytest

from tests.tidy.project_files import modules, nodes_of, project_files, text_of, tree_of

SENTENCE_WORDS_MAX = 25
PAGES = [
    name
    for name in project_files()
    if name.endswith(".md") and (name == "README.md" or name.startswith("docs/"))
]
_NO_ACTOR = re.compile(r"\b(?:who|whom|whoever|he|him|his|is told|are told)\b", re.IGNORECASE)
_VERSION_BY_AGE = re.compile(
    r"\b(?:newest|oldest)[\s#*]+(?:[A-Z]{4,}[\s#]+|database[\s#]+)?"
    r"(?:snapshots?|schemas?|versions?|changelogs?)\b",
    re.IGNORECASE,
)
SAID_AS_EXAMPLES = ("docs/develop/style.md",)
"""Pages that quote what they advise against."""
_SECTION = re.compile(r"(?:Args|Attributes|Raises|Returns|Yields):")


def paragraphs(text: str) -> list[str]:
    """Prose, without code blocks, tables, headings and footnotes; each list item by itself."""
    paragraphs: list[list[str]] = [[]]
    for line in re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL).split("\n"):
        plain = line.strip()
        if not plain or plain.startswith(("|", "#", "![", "[^")) or line.startswith("    "):
            paragraphs.append([])
            continue
        if re.match(r"(?:[*-]|\d+\.) ", plain):
            paragraphs.append([])
            plain = plain.split(" ", 1)[1]
        paragraphs[-1].append(plain)
    return [" ".join(lines) for lines in paragraphs if lines]


def long_sentences(text: str) -> list[str]:
    """Sentences of too many words; code in quotes is one word, and so is a list of such code."""
    sentences = []
    for paragraph in paragraphs(text):
        plain = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "CODE", paragraph))
        plain = re.sub(r"CODE(?:,\s+CODE)+", "CODE", plain)
        for sentence in re.split(r"(?<=[.!?])[\"')*]*\s+", plain):
            if len(re.findall(r"[\w'’-]+", sentence)) > SENTENCE_WORDS_MAX:
                sentences.append(sentence)
    return sentences


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring, those of constants too."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in node.body:
                match statement:
                    case ast.Expr(ast.Constant(str(text))):
                        yield statement.lineno, inspect.cleandoc(text)


def docstring_prose(text: str) -> str:
    """A docstring without its tables, and each entry of a section as a paragraph."""
    lines: list[str] = []
    in_section = False
    for line in re.sub(r"^=+ .*^=[= ]*=$", "", text, flags=re.MULTILINE | re.DOTALL).split("\n"):
        if _SECTION.fullmatch(line):
            in_section = True
        elif line and not line.startswith(" "):
            in_section = False
        if in_section and re.match(r" {4}\S", line):
            lines.append("")
        lines.append(line.strip() if in_section else line)
    return "\n".join(lines).replace("``", "`")


@pytest.mark.parametrize("page", PAGES)
def test_sentences_of_pages_are_short(page: str) -> None:
    assert long_sentences(text_of(page)) == []


@pytest.mark.parametrize("page", [page for page in PAGES if page not in SAID_AS_EXAMPLES])
def test_pages_name_the_actor(page: str) -> None:
    prose = re.sub(r"\]?\([^()\s]+\.md[^()\s]*\)", "", text_of(page))
    assert [match.group() for match in _NO_ACTOR.finditer(prose)] == []


def test_docstrings_comments_and_messages_name_the_actor() -> None:
    assert [
        f"{name}: {line.strip()}"
        for name in modules("stream_app")
        for line in text_of(name).splitlines()
        if _NO_ACTOR.search(line)
    ] == []


def test_versions_are_latest_and_earliest() -> None:
    """As in names: newest and oldest are messages, rows, files and epochs."""
    assert [
        f"{name}: {match.group()}"
        for name in project_files()
        if name.endswith((".py", ".md", ".html", ".txt")) and name not in SAID_AS_EXAMPLES
        for match in _VERSION_BY_AGE.finditer(text_of(name))
    ] == []


def test_sentences_of_docstrings_are_short() -> None:
    assert [
        f"{name}:{line}: {sentence}"
        for name in modules("stream_app")
        for line, text in docstrings(tree_of(name))
        for sentence in long_sentences(docstring_prose(text))
    ] == []


def test_the_counter_counts() -> None:
    words = "word " * SENTENCE_WORDS_MAX
    assert long_sentences(f"{words.strip()}. {words.strip()}.") == []
    assert len(long_sentences(f"* {words}more.\n\n```\n{words}more\n```\n| {words}more |")) == 1


def test_entries_of_a_docstring_are_counted_each() -> None:
    words = ("word " * SENTENCE_WORDS_MAX).strip()
    entries = f"Words.\n\nArgs:\n    one: some words\n    two: {words[5:]}"
    assert long_sentences(docstring_prose(entries)) == []
    assert len(long_sentences(docstring_prose(f"{entries}\n        and more"))) == 1
    assert long_sentences(docstring_prose(f"=== ===\n{words} {words}\n=== ===")) == []


_NOUN = re.compile(r"(?:The|A|An|All|Each|Every|Whether)\b")
_NO_NOUNS = frozenset(
    [
        *("Add", "Change", "Comment", "Do", "Does", "Drop", "Give", "Has", "How", "Is", "Make"),
        *("Move", "Read", "Remove", "Rename", "Reset", "Return", "Set", "What", "When", "Where"),
        *("Whether", "Which", "Write", "Yield"),
    ]
)
"""First words of a docstring that say what a function does, or ask a question."""

_GETTERS = ("property", "contextmanager", ".setter")


def noun_docstrings(tree: ast.Module) -> Iterator[int]:
    """Lines of functions whose docstring begins with a noun; those of properties do so rightly."""
    for node in nodes_of(tree):
        if isinstance(node, ast.ClassDef | ast.Module):
            for function in node.body:
                if not isinstance(function, ast.FunctionDef):
                    continue
                decorators = [ast.unparse(decorator) for decorator in function.decorator_list]
                if any(name.endswith(_GETTERS) for name in decorators):
                    continue
                if _NOUN.match(ast.get_docstring(function) or ""):
                    yield function.lineno


def verb_docstrings(tree: ast.Module) -> Iterator[int]:
    """Lines of classes whose docstring begins with a question, or with a verb of their name."""
    for node in nodes_of(tree):
        if isinstance(node, ast.ClassDef):
            first_word = (ast.get_docstring(node) or "").partition(" ")[0]
            if first_word in _NO_NOUNS:
                yield node.lineno


def test_docstrings_of_classes_begin_with_a_noun() -> None:
    lines = [
        f"{name}:{line}"
        for name in modules("stream_app")
        for line in verb_docstrings(tree_of(name))
    ]
    assert lines == [], "name what its values are; an error's class may say what is wrong"


def test_docstrings_of_classes_that_begin_with_a_verb_are_seen() -> None:
    tree = ast.parse("class A:\n  'Set it.'\nclass B:\n  'A set.'\nclass C:\n  'Whether it is.'")
    assert list(verb_docstrings(tree)) == [1, 5]


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    lines = [
        f"{name}:{line}"
        for name in modules("stream_app")
        for line in noun_docstrings(tree_of(name))
    ]
    assert lines == [], "Return, Yield, or what the function does"


def test_docstrings_that_begin_with_a_noun_are_seen() -> None:
    tree = ast.parse(
        "def f():\n  'The rows.'\nclass C:\n  @property\n  def p(self):\n    'The rows.'\n"
        "  def m(self):\n    'Return the rows.'\n  def n(self):\n    'Whether it is.'"
    )
    assert list(noun_docstrings(tree)) == [1, 9]


def test_docstrings_of_generators_do_not_say_return() -> None:
    lines = [
        f"{name}:{function.lineno}"
        for name in modules("stream_app")
        for function in nodes_of(tree_of(name))
        if isinstance(function, ast.FunctionDef)
        if _yields(function) and (ast.get_docstring(function) or "").startswith("Return")
    ]
    assert lines == [], "it yields"


def _yields(function: ast.FunctionDef) -> bool:
    if "contextmanager" in map(ast.unparse, function.decorator_list):
        return False
    inner = [node for node in ast.walk(function) if isinstance(node, ast.FunctionDef | ast.Lambda)]
    nested_ids = {id(node) for part in inner if part is not function for node in ast.walk(part)}
    return any(
        isinstance(node, ast.Yield | ast.YieldFrom) and id(node) not in nested_ids
        for node in ast.walk(function)
    )
