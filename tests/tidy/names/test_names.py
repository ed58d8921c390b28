"""No name has two meanings, and no value has an empty word for its name."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.tidy.names.names_of_a_module import (
    constants,
    fields,
    imported_names,
    number_constants,
    other_names,
    public_definitions,
    type_aliases,
    values,
)
from tests.tidy.project_files import assignments, modules, nodes_of, tree_of

EMPTY = frozenset(
    [
        *("asked", "at", "bad", "decoded", "each", "failed", "found", "given", "gone", "held"),
        *("kept", "known", "made", "named", "nested", "one", "own", "protected", "published"),
        *("said", "seen", "some", "there", "told", "valid", "what", "wire"),
    ]
)
"""They say how a value came about, not what it is: `files`, `row`, `schema` say that."""

NOUNS_IN_ED = frozenset({"feed", "need", "seed", "speed", "testbed"})
"""Words that end like a participle."""

IDIOMS_OF_TESTS = frozenset({"expected", "raised"})
"""The value that a test expects, and the context of `pytest.raises`."""

STATES = frozenset(
    [
        *(
            "COMPILED",
            "DECLINED",
            "DISABLED",
            "FAILED",
            "INTERRUPTED",
            "KEYED",
            "POSTPONED",
            "UNCHANGED",
        ),
    ]
)
"""Constants that mark a state: a value of an option, an exit code, a kind of table, a sentinel."""

PARTICIPLES_STORED = {
    "CompactionReport": frozenset({"upgraded"}),
    "CompactionRow": frozenset({"upgraded"}),
    "CompactionSummary": frozenset({"upgraded"}),
    "config_key": frozenset({"required"}),
}
"""Names of keys of events and of columns; a keyword that declarations of keys read well with. Each
is behind its class or function."""

VERBS = frozenset({"begin", "begins"})
"""A job begins an epoch; the first position of a range is its `start`."""

EMPTY_PARTS = frozenset({"found", "told"})
"""Words that say as little within a name: `is_shown` says more than `is_told`."""

BARE_NUMBERS = frozenset({"number", "numbers"})
"""A number counts up for what its noun names, such as `page_number`; otherwise it is a value."""

UNITS = frozenset(
    [
        *("bits", "bytes", "cents", "days", "digits", "letters", "micros", "microseconds"),
        *("cores", "ms", "seconds", "threads"),
    ]
)
"""Plurals that name a number: units, and the cores and threads that options name so."""

NAMED_BY_THEIR_CLASS = re.compile("(Counts|Metrics|Row|Overview|TableStatus|Compaction)$")
"""Classes whose fields are counts, or columns of a listing."""

PLURALS_STORED = frozenset(
    ["HeldTable.tries", "SourceConfig.snapshot_rows", "StreamConfig.driver_messages"]
)
"""Numbers whose names are keys of files."""

SEAMS = frozenset(
    ["OPTIONS", "WORD", "change_times", "describe", "main", "survey", "text", "versions"]
)
"""Names that several modules define on purpose: options and functions of each format, programs,
bytes of a machine word, and the `text` of Thrift beside those that stand behind their module."""

NUMBER_WORDS = frozenset({"max", "min", "num", "total"})
"""First words that say that a number follows, as in Paimon's `num_levels`."""

_NAMED_WELL = ("stream_app", "bench", "docker", "tests")


def _package(module: str) -> str:
    return "/".join(module.split("/")[:2])


def test_no_class_name_is_defined_twice() -> None:
    places = Counter(
        node.name.lstrip("_")
        for name in modules("stream_app")
        for node in nodes_of(tree_of(name))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in places.items() if count > 1] == []


def test_imported_functions_and_constants_are_defined_once() -> None:
    """A name that no module imports is of its module alone, such as the `run` of a command."""
    trees = [tree_of(name) for name in modules("stream_app")]
    places = Counter(name for tree in trees for name in set(public_definitions(tree)))
    imports = {name for tree in trees for name in imported_names(tree)}
    several = {name for name, count in places.items() if count > 1 and name in imports}
    assert several == SEAMS, "name it by what it is, or import it"


def test_definitions_and_imports_are_seen() -> None:
    tree = ast.parse(
        "from stream_app.model.row import MAX, one_row as a_row\nfrom os import path\n"
        "def f(): pass\ndef _g(): pass\nLIMIT: int = 3\n_SIZE = SIZE = 4\nKey = TypeVar('Key')\n"
        "class Row: pass"
    )
    assert list(public_definitions(tree)) == ["f", "LIMIT", "SIZE"]
    assert list(imported_names(tree)) == ["MAX", "one_row"]


def test_aliases_of_types_are_defined_once() -> None:
    modules_of = Counter(
        alias for name in modules("stream_app") for alias in set(type_aliases(tree_of(name)))
    )
    several = [alias for alias, count in modules_of.items() if count > 1]
    assert several == [], "define it once, or name it by what it is"


def test_aliases_of_types_are_seen() -> None:
    tree = ast.parse(
        "_Rows = list[int]\nKey: TypeAlias = str\nT = TypeVar('T')\nMAX = 3\nA = B = 1"
    )
    assert list(type_aliases(tree)) == ["Rows", "Key"]


def test_parts_of_names_are_not_empty() -> None:
    names = {
        name
        for module in modules("stream_app", "bench")
        for name in (*values(tree_of(module)), *other_names(tree_of(module)))
        if EMPTY_PARTS & set(name.lower().split("_"))
    }
    assert names == set(), "name it by what it is"


@pytest.mark.parametrize("package", sorted({_package(name) for name in modules(*_NAMED_WELL)}))
def test_values_have_no_empty_names(package: str) -> None:
    names = Counter(
        name
        for module in modules(*_NAMED_WELL)
        if _package(module) == package
        for name in values(tree_of(module))
    )
    assert not (EMPTY | VERBS) & names.keys(), "name the value by what it is, such as files or row"


def test_left_is_the_side_of_a_pair() -> None:
    """Without a `right` beside it, what is left over has a noun, such as remaining_rows."""
    values_of = {name: set(values(tree_of(name))) for name in modules(*_NAMED_WELL)}
    assert [name for name in values_of if values_of[name] & {"left", "right"} == {"left"}] == []


def test_a_participle_has_its_noun() -> None:
    """`removed` may be files, rows or a mask: `removed_files`, `removed_rows` or `is_removed`."""
    names = {
        f"{module}: {owner}.{name}"
        for module in modules(*_NAMED_WELL)
        for owner, name in bare_participles(tree_of(module))
        if name not in PARTICIPLES_STORED.get(owner, frozenset())
        and not (name in IDIOMS_OF_TESTS and module.startswith(("tests/", "bench/")))
    }
    assert names == set(), "add its noun, such as removed_files; a mask is a question"


def test_a_constant_that_is_a_participle_has_its_noun() -> None:
    names = {
        name.lstrip("_")
        for module in modules("stream_app")
        for name, _ in constants(tree_of(module).body)
        if is_bare_participle(name.lower())
    }
    assert names == STATES, "add its noun, such as PARSED_SCHEMA"


def test_bare_participles_are_seen() -> None:
    tree = ast.parse(
        "MERGED = 1\nseed = joined = 2\n"
        "class Rows:\n    _cached: int\n    def read(self, added, removed_files): split = 3\n"
        "for removed in files: pass"
    )
    names = [("", "joined"), ("", "removed"), ("Rows", "_cached"), ("read", "added")]
    assert sorted(bare_participles(tree)) == names


def bare_participles(tree: ast.AST, owner: str = "") -> Iterator[tuple[str, str]]:
    """Values in lower case that are one word in -ed, behind the class or function around them."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.ClassDef(name=inner_owner) | ast.FunctionDef(name=inner_owner):
                yield from bare_participles(node, inner_owner)
                continue
            case ast.Name(id=name, ctx=ast.Store()):
                pass
            case ast.arg(arg=name) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                pass
            case _:
                name = ""
        if is_bare_participle(name):
            yield owner, name
        yield from bare_participles(node, owner)


def is_bare_participle(name: str) -> bool:
    return re.fullmatch("_?[a-z]+ed", name) is not None and name.lstrip("_") not in NOUNS_IN_ED


def test_a_number_has_its_noun() -> None:
    names = {
        f"{module}: {name}"
        for module in modules("stream_app")
        for name in values(tree_of(module))
        if name.lstrip("_") in BARE_NUMBERS
    }
    assert names == set(), "an id, an index or a page_number; or a value, integer or ticks"


def test_a_parameter_that_is_an_index_has_its_noun() -> None:
    """A loop shows what its index counts; a caller of a function sees only the name."""
    functions = {
        f"{module}: {name}" for module in modules("stream_app") for name in indexed(tree_of(module))
    }
    assert functions == set(), "such as column_index"


def test_indexed_functions_are_seen() -> None:
    tree = ast.parse(
        "def f(index): pass\ndef g(a, *, index=0): pass\ndef h(column_index): index = 1\n"
        "class Rows:\n    def __getitem__(self, index): pass"
    )
    assert list(indexed(tree)) == ["f", "g"]


def indexed(tree: ast.Module) -> Iterator[str]:
    """Functions with a parameter `index`, except Python's `__getitem__`."""
    for node in nodes_of(tree):
        match node:
            case ast.FunctionDef(name=name, args=arguments) if name != "__getitem__":
                if "index" in {item.arg for item in (*arguments.args, *arguments.kwonlyargs)}:
                    yield name


def test_no_value_but_a_field_is_called_of() -> None:
    """A field of a class reads with its owner; alone the word does not say what the value is."""
    modules_with = [
        name
        for name in modules("stream_app", "bench")
        if Counter(values(tree_of(name)))["of"] > Counter(fields(tree_of(name)))["of"]
    ]
    assert modules_with == [], "name the value by what it is, such as column or pages"


def test_a_number_is_not_named_by_the_things_that_it_counts() -> None:
    """`files` are files, and `file_count` is their number.

    In machine code the fields of buffers and the parameters are addresses.
    """
    plurals = [
        f"{module}: {name}"
        for module in modules("stream_app")
        for name in counted_things(tree_of(module))
        if name not in PLURALS_STORED and not ("/compiled/" in module and "." in name)
    ]
    assert plurals == [], "add _count, or name what the number is"


def test_a_constant_is_not_named_by_the_things_that_it_counts() -> None:
    plurals = [
        f"{module}: {name}"
        for module in modules("stream_app")
        for name in number_constants(tree_of(module))
        if _is_plural(_without_participle(name.lower()))
    ]
    assert plurals == [], "add _COUNT, or _MAX to a bound; fields of a format are an enum"


def _without_participle(name: str) -> str:
    """Drop what follows the noun of a count, as in `lines_shown` and `epochs_kept`."""
    return re.sub("_([a-z]+ed|held|kept|open|read|shown)$", "", name)


def test_constants_that_are_counts_are_seen() -> None:
    tree = ast.parse(
        "_TABLES, ROWS_MAX = 3, 4\nLINES_SHOWN: int = 2 * _TABLES\nNAMES = ('a',)\nSIZE = len(x)\n"
        "class Field(IntEnum):\n    KEYS = 8\nclass Page:\n    ROWS = 1 << 3\nTIMEOUT_MS = 4"
    )
    numbers = set(number_constants(tree))
    assert numbers == {"LINES_SHOWN", "ROWS", "ROWS_MAX", "SIZE", "TIMEOUT_MS", "_TABLES"}
    plurals = {name for name in numbers if _is_plural(_without_participle(name.lower()))}
    assert plurals == {"LINES_SHOWN", "ROWS", "_TABLES"}


def test_counted_things_are_seen() -> None:
    tree = ast.parse(
        "class Split:\n    files: int\n    status: int\n    row_count: int\n    bytes: int\n"
        "    late_rows: int\n    lag_ms: int\n    max_rows: int\n    level_with_files: int\n"
        "class OpenMetrics:\n    files: int\n"
        "def f(a: int, rows: int | None, keys: list[int], *, max_rows: int = 3): tasks: int = 1\n"
        "blocks, row_count, restores, names = 0, 1, True, []\n"
        "errors = self.tries = sum(sizes)\nstatus, seconds = len(a), 2\npages += 1\n"
        "counts = sum(arrays, no_rows)"
    )
    things = ["Split.files", "Split.late_rows", "blocks", "errors", "f.rows", "tasks", "tries"]
    assert sorted(counted_things(tree)) == things


def counted_things(tree: ast.Module) -> Iterator[str]:
    """Numbers among the fields, parameters and values that have a plural for their name."""
    for owner, name, annotation in annotated_names(tree):
        is_number = annotation is not None and ast.unparse(annotation) in ("int", "int | None")
        if is_number and _is_plural(name):
            yield f"{owner}.{name}"
    for target, value in assignments(tree):
        match target:
            case ast.Name(id=name) | ast.Attribute(attr=name) if _is_number(value):
                if _is_plural(name) and name not in fields(tree):
                    yield name


def _is_number(value: ast.expr) -> bool:
    match value:
        case ast.Constant(value=bool()):
            return False
        case ast.Constant(value=int()):
            return True
        case ast.Call(func=ast.Name(id="sum" | "len" | "int"), args=[_]):
            return True
    return False


def _is_plural(name: str) -> bool:
    words = name.lstrip("_").partition("_with_")[0].split("_")
    is_plural = re.fullmatch(r"[a-z]*[a-hj-rtv-z]s", words[-1]) is not None
    return is_plural and words[-1] not in UNITS and words[0] not in NUMBER_WORDS


def annotated_names(tree: ast.Module) -> Iterator[tuple[str, str, ast.expr | None]]:
    """Fields and parameters with their annotation, behind their class or function."""
    for node in nodes_of(tree):
        match node:
            case ast.ClassDef(name=owner, body=body) if not NAMED_BY_THEIR_CLASS.search(owner):
                for item in body:
                    if isinstance(item, ast.AnnAssign):
                        yield owner, ast.unparse(item.target), item.annotation
            case ast.FunctionDef(name=owner, args=arguments):
                for argument in (*arguments.args, *arguments.kwonlyargs):
                    yield owner, argument.arg, argument.annotation


def test_values_are_seen() -> None:
    tree = ast.parse("def f(a, *, each): found = [told for told in a]\nfor b, each in c: pass")
    assert Counter(values(tree)) == Counter(["a", "each", "found", "told", "b", "each"])
