"""The whole configuration stays in few hands, and one place distinguishes its two kinds of job."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from stream_app.app.config.app_config import KEYS
from stream_app.model.options.core_options import OPTIONS
from tests.tidy.project_files import modules, nodes_of, text_of, tree_of

WHOLE = {
    "app/cli/arguments/compaction", "app/cli/arguments/configuration", "app/config/shown_job",
    "app/cli/verbs/ingest", "app/config/app_config",
    "app/submit/job_settings",
}  # fmt: skip
"""They take it apart; what they call takes the values that it needs. A contract has the rooms."""
PARSING = "app/config/"
KINDS = {"SingleTable", "WholeDatabase"}
MATCHING = {
    "app/table_setup/start_table_checks",
    "app/ops/doctor/examination",
    "app/ops/replay/job_replay",
}
"""They do different work for each kind of job: a `match` over both, which mypy completes."""


JUDGING = {"isinstance", "issubclass", "type", "bool"}
DECIDING: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Compare: ("left", "comparators"), ast.If: ("test",), ast.IfExp: ("test",),
    ast.While: ("test",), ast.UnaryOp: ("operand",), ast.BoolOp: ("values",),
    ast.MatchClass: ("cls",), ast.Call: ("args",),
}  # fmt: skip


def modules_with(pattern: str) -> set[str]:
    return {
        name.removeprefix("stream_app/").removesuffix(".py")
        for name in modules("stream_app")
        if re.search(pattern, text_of(name))
    }


def test_few_modules_hold_the_whole_configuration() -> None:
    assert modules_with(r"\bAppConfig\b") == WHOLE


def questions(source: str) -> Iterator[str]:
    """Each place that asks whether a job is of a whole database, or has one table."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id="sync_of") | ast.Attribute(attr="sync_of" | "is_of_many"):
                yield ast.unparse(node)
            case ast.Call(func=function) if ast.unparse(function) not in JUDGING:
                continue
        for value in judged_expressions(node):
            match value:
                case ast.Name(id=name) if name in KINDS:
                    yield name
                case ast.Attribute(attr="sync" | "section_name"):
                    yield ast.unparse(value)


def judged_expressions(node: ast.AST) -> Iterator[ast.AST]:
    """The expressions whose value or class a node judges."""
    for field in DECIDING.get(type(node), ()):
        inside = getattr(node, field)
        for value in inside if isinstance(inside, list) else [inside]:
            yield value
            if isinstance(value, ast.Tuple | ast.BinOp):  # classes of isinstance
                yield from ast.walk(value)


@cache
def asking() -> frozenset[str]:
    names = {name.removeprefix("stream_app/").removesuffix(".py") for name in modules("stream_app")}
    return frozenset(name for name in names if any(questions(text_of(f"stream_app/{name}.py"))))


def test_a_job_of_a_database_is_distinguished_where_the_configuration_is_parsed() -> None:
    assert {name for name in asking() if not name.startswith(PARSING)} == MATCHING


@pytest.mark.parametrize("module", sorted(MATCHING))
def test_elsewhere_both_kinds_are_matched(module: str) -> None:
    text = text_of(f"stream_app/{module}.py")
    others = [question for question in questions(text) if question not in KINDS]
    assert not others
    assert not re.search(r"isinstance\([^)]*(?:SingleTable|WholeDatabase)", text)


@pytest.mark.parametrize(
    "spelling",
    [
        "if config.sync is None: pass",
        "x = 1 if tables.sync is not None else 2",
        "if self.tables.sync: pass",
        "x = not config.sync",
        "x = bool(job.sync)",
        "x = job.sync or other",
        "from m import sync_of\nx = sync_of(job)",
        "x = tables.is_of_many",
        "x = isinstance(job, WholeDatabase)",
        "x = not isinstance(job, (int, SingleTable))",
        "x = isinstance(job, int | SingleTable)",
        "x = type(job) is SingleTable",
        "x = job.section_name == 'sync'",
        "match job:\n    case WholeDatabase(): pass",
    ],
)
def test_each_spelling_of_the_question_is_noticed(spelling: str) -> None:
    assert any(questions(spelling))


def test_the_parts_of_a_database_are_not_a_question() -> None:
    quiet = "x = database.sync.renames_of(name)\nif table.sync(path): pass\nWholeDatabase(sync=1)"
    assert not any(questions(quiet))


TYPED_KEYS = {
    "app/ops/written_configuration": "writes a user's file",
    "demo/demo_catalog": "writes a user's file",
    "format/schema_json": "has the defaults of Paimon's older files",
    "model/schema/table_only_options": "lists keys, most of which stream_app does not declare",
}
"""Modules that type keys of options again, with the reason."""


def test_a_declared_option_is_named_by_its_constant() -> None:
    """A key that is typed again may be wrong, and a search for the constant misses it."""
    typing_modules = {
        name.removeprefix("stream_app/").removesuffix(".py")
        for name in modules("stream_app")
        if not name.startswith("stream_app/model/options/") and any(typed_keys(tree_of(name)))
    }
    assert typing_modules == TYPED_KEYS.keys(), "write MERGE_ENGINE.key in place of 'merge-engine'"


def test_typed_keys_are_seen() -> None:
    tree = ast.parse("a = {'merge-engine': 1}\nb = 'sequence.field'\nc = 'bucket', 'type', 'x-y'")
    assert sorted(typed_keys(tree)) == ["merge-engine", "sequence.field"]


def typed_keys(tree: ast.Module) -> Iterator[str]:
    """Texts that are the key of an option, and no word of English."""
    for node in nodes_of(tree):
        match node:
            case ast.Constant(value=str(key)) if key in OPTIONS and re.search("[.-]", key):
                yield key


@cache
def attributes() -> set[str]:
    """Return the names that the product's modules read of a value, such as x in `value.x`."""
    texts = map(text_of, modules("stream_app"))
    return {name for text in texts for name in re.findall(r"(?<=\w)\.(\w+)", text)}


@pytest.mark.parametrize(
    "key", [f"{section}.{key}" for section, keys in KEYS.items() for key in keys]
)
def test_each_key_of_the_configuration_is_read(key: str) -> None:
    field = key.rpartition(".")[2].replace("-", "_")
    assert field in attributes(), "a key that nothing reads is a promise that nothing keeps"
