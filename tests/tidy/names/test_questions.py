"""Each mask and each bool has a question for its name, such as `is_valid` or `drops_deletes`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.tidy.project_files import modules, nodes_of, tree_of

QUESTIONS = frozenset(
    [
        *("are", "can", "has", "have", "is", "may", "must", "ran", "should", "was", "were", "will"),
    ]
)
"""Verbs with which a question begins, or which stand behind its noun, as in `missing_is_null`."""

THIRD_PERSON = re.compile("[a-z]{2,}[a-rt-z]s")
"""A verb such as `keeps`, or a subject as in `keys_repeat`; neither `as` nor `class`."""

ACCEPTED = {
    "case_sensitive": "an option of databases; `SyncConfig` gives it to `SyncRules` by name",
    "dry_run": "the argument of commands that has this name everywhere",
    "mask": "a function applies it to rows, and only its caller knows its question",
    "merge_shards": "as `case_sensitive`",
    "nullable": "Arrow's and Paimon's word for a type",
    "optional": "Connect's word for a type",
    "requester_pays": "a sentence; an option of S3",
    "result": "a mask under construction, whose function has its name",
    "truth_values": "a column of booleans from a message",
    "union": "a mask that several masks give",
    "value": "a boolean that an encoder writes",
}
"""Names that are no questions, with the reason."""

MASK_FUNCTION = re.compile("_mask$|_of$|^_?(add|bools|convert|decode|mark|read|set)(_|$)")
"""A mask by its own word, a conversion, or a function that acts and says where it succeeded."""

PUBLIC = "stream_app/table/api/"
"""Names of its parameters are the users'."""


def test_a_mask_or_a_bool_is_a_question() -> None:
    names = {
        f"{module}: {name}"
        for module in modules("stream_app")
        if not module.startswith(PUBLIC)
        for name in annotated_bools(tree_of(module))
        if name not in ACCEPTED and not is_question(name)
    }
    assert names == set(), "begin with a verb, such as is_, has_, may_, keeps_ or writes_"


def test_a_function_that_returns_a_mask_is_a_question() -> None:
    names = {
        f"{module}: {name}"
        for module in modules("stream_app")
        for name in mask_functions(tree_of(module))
        if not is_question(name.lstrip("_")) and not MASK_FUNCTION.search(name)
    }
    assert names == set(), "name it as its mask, such as is_last_of_key"


def test_accepted_names_occur() -> None:
    names = {name for module in modules("stream_app") for name in annotated_bools(tree_of(module))}
    assert ACCEPTED.keys() - names == set(), "the name is a question, or gone"


def test_questions_are_seen() -> None:
    names = "is_old _has_rows keeps_first goes uses_names missing_is_null keys_repeat may_spill"
    others = "as_json by_lookup strict with_ids in_driver cross path_style class_name"
    assert [name for name in names.split() if not is_question(name)] == []
    assert [name for name in others.split() if is_question(name)] == []


def test_annotated_bools_are_seen() -> None:
    tree = ast.parse(
        "class Rules:\n    strict: bool = False\n    stop: bool = config_key(3)\n    rows: int\n"
        "def f(a: bool, /, b: 'bool | None', *, c: Bools, d: list[bool]): e: Bools | None = g()\n"
        "async def h(k: bool): self.m: bool = True"
    )
    assert sorted(annotated_bools(tree)) == ["a", "b", "c", "e", "k", "m", "strict"]


def annotated_bools(tree: ast.Module) -> Iterator[str]:
    """Names of parameters, fields and local values of these types; no keys of the configuration."""
    for node in nodes_of(tree):
        match node:
            case ast.AnnAssign(value=ast.Call(func=ast.Name(id="config_key"))):
                pass
            case (
                ast.AnnAssign(target=ast.Name(id=name) | ast.Attribute(attr=name))
                | ast.arg(arg=name)
            ) if node.annotation is not None:
                types = ast.unparse(node.annotation).strip("'").split(" | ")
                if {*types} - {"None"} in ({"bool"}, {"Bools"}, {"Bools", "bool"}):
                    yield name


def is_question(name: str) -> bool:
    words = name.lstrip("_").split("_")
    return not QUESTIONS.isdisjoint(words) or THIRD_PERSON.fullmatch(words[0]) is not None


def mask_functions(tree: ast.Module) -> Iterator[str]:
    """Yield the names of functions that return a mask, or no mask."""
    for node in nodes_of(tree):
        match node:
            case ast.FunctionDef(name=name, returns=ast.expr() as kind) if "Bools" in ast.unparse(
                kind
            ).split(" | "):
                yield name
