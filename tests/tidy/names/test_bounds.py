"""A bound has `max` or `min` behind its noun, and `limit` alone does not say of what."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.names.names_of_a_module import other_names, values
from tests.tidy.project_files import modules, tree_of

EXTREMES = frozenset(
    [
        *("bucket", "key", "level", "row_id", "sequence_number", "values"),
        *("earlier_number", "length", "next_snapshot_id", "power", "ranks"),
    ]
)
"""Nouns of the least or greatest of the values that there are: `max_key`. Most are Paimon's words,
such as `minKey` of a data file and `minNextSnapshot` of the consumers."""

OPTIONS = frozenset(
    [
        *("max_attempts", "max_bad_records", "max_buckets", "max_files_per_trigger"),
        *("max_offsets_per_trigger", "max_size_amplification_percent", "max_sleep_ms"),
        *("max_staleness", "max_staleness_s", "max_tables", "min_file_num", "min_partitions"),
    ]
)
"""Values of options, which have the options' names."""

FOREIGN = frozenset({"max_size"})
"""Names of Hypothesis, which a strategy of the tests takes over."""

QUERIES = (
    "stream_app/app/web/routes.py",
    "stream_app/app/web/table_page.py",
    "stream_app/table/api/",
)
"""Places where `limit` is that of a query's rows, as in SQL and in the public API."""


def test_a_bound_has_max_or_min_behind_its_noun() -> None:
    names = {
        f"{module}: {name}"
        for module in modules("stream_app", "bench", "docker", "tests")
        for name in bounds_in_front(tree_of(module))
        if name not in OPTIONS | FOREIGN
    }
    assert names == set(), "such as rows_max, or the value of an option by the option's name"


def test_a_limit_says_of_what() -> None:
    modules_with_limits = {
        module
        for module in modules("stream_app", "bench", "docker", "tests")
        if "limit" in named(tree_of(module)) and not module.startswith(QUERIES)
    }
    assert modules_with_limits == set(), "such as rows_max or bytes_max"


def test_each_accepted_name_is_used() -> None:
    names = {
        name
        for module in modules("stream_app", "bench", "tests")
        for name in named(tree_of(module))
    }
    extremes = {name.partition("_")[2] for name in names if name.startswith(("max_", "min_"))}
    assert extremes >= EXTREMES
    assert names >= OPTIONS | FOREIGN


def test_bounds_are_seen() -> None:
    tree = ast.parse(
        "def f(max_rows, max_key, *, row_max): self._min_wait_s = min(rows)\n"
        "def min_age(): max_level, _MAX_SIZE = 3, 4\n"
        "class Limits:\n    min_count: int\n    count_min: int\n"
        "def max(): pass\nclass Buffer:\n    _limit: int\ndef test_min_and_max(): pass"
    )
    names = ["MAX_SIZE", "max_rows", "min_age", "min_count", "min_wait_s"]
    assert sorted(bounds_in_front(tree)) == names
    assert "limit" in named(tree)


def bounds_in_front(tree: ast.Module) -> Iterator[str]:
    """Names that begin with `max` or `min`, except the extremes of the values that there are."""
    for name in named(tree):
        first, _, noun = name.lower().partition("_")
        if first in ("max", "min") and noun and noun not in EXTREMES:
            yield name


def named(tree: ast.Module) -> set[str]:
    """Names of values, fields and functions, without a leading underscore."""
    return {name.lstrip("_") for name in (*values(tree), *other_names(tree))}
