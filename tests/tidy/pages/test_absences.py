"""The code obeys each bullet of "What the code never does" in docs/ARCHITECTURE.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.tidy.project_files import modules, nodes_of, text_of, tree_of

PAGE = text_of("docs/ARCHITECTURE.md").split("## What the code never does")[1].split("\n## ")[0]
BELOW_APP = [
    name
    for name in modules("stream_app")
    if not name.startswith(("stream_app/app/", "stream_app/demo/"))
]
_CLOCK = {"time", "monotonic", "sleep", "perf_counter"}
_CONTAINERS = {"dict", "list", "set"}  # with arguments they are constants
_CONSTRUCTORS = {
    "deque",
    "OrderedDict",
    "defaultdict",
    "Lock",
    "RLock",
    "Event",
    "Condition",
    "lru_cache",
}
_CONSTRUCTORS |= {"RecentFiles", "HashCache", "WeakKeyDictionary", "WeakValueDictionary"}
PURE = {
    "catalog.hive.metastore_client",
    "cdc.canal.mysql_types", "cdc.computed.text_functions", "cdc.wire.wire_format",
    "cdc.wire.avro.avro_references", "cdc.wire.avro.avro_types", "cdc.wire.json_schemas",
    "cdc.wire.protobuf.protobuf_schemas", "cdc.plain.plain_protobuf",
    "format.arrow_schema", "format.binary_row",
    "format.snapshot_json", "kafka.librdkafka", "kafka.message_stamps",
    "planning.compact.compaction_policy",
}  # fmt: skip
"""Cached functions whose answer depends on their arguments alone, or is a library."""
READ_ONE_BY_ONE = {
    "mergetree.merge_engines.aggregates.unions": "sketches and bitmaps are objects of libraries",
    "mergetree.write.row_kinds": "four texts of row kinds",
    "mergetree.write.fill_unchanged": "few sets of columns",
    "spark.jobs.dataframe_epochs": "a cell is a block of rows",
    "kafka.transactions.pending_messages": "names and ids of transactions, not of rows",
}


def dotted_name(name: str) -> str:
    return name.removeprefix("stream_app/").removesuffix(".py").replace("/", ".")


def listed_modules(text: str) -> set[str]:
    """Modules that a part of the page names."""
    return {name for name in re.findall(r"`([\w.]+)`", text) if name not in ("app", "clock.Clock")}


def bullet(prefix: str) -> str:
    return next(part for part in re.split(r"\n(?=\* )", PAGE) if part.startswith(f"* {prefix}"))


def calls(tree: ast.Module, attribute: str) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == attribute
        for node in nodes_of(tree)
    )


def test_snapshots_are_published_by_one_module_and_restored_by_two_others() -> None:
    for call, count in (
        (r"_environment\.publish_snapshot", 1),
        (r"\bsnapshots\.restore", 2),
    ):
        pattern = rf"{call}\("
        callers = [
            dotted_name(name) for name in modules("stream_app") if re.search(pattern, text_of(name))
        ]
        assert len(callers) == count
        assert set(callers) <= set(listed_modules(bullet("Only")))


def test_paths_inside_a_table_are_built_in_filestore() -> None:
    builders = {
        dotted_name(name)
        for name in BELOW_APP
        if not name.startswith(
            (
                "stream_app/filestore/",
                "stream_app/spark/",
                "stream_app/checkpoint/",
                "stream_app/quarantine/",
            )
        )
        if any(names_a_folder(node) for node in nodes_of(tree_of(name)))
    }
    assert builders == listed_modules(bullet("Paths")) - {"filestore"}


def names_a_folder(node: ast.AST) -> bool:
    """A path of a table's root, or of its versions', and a folder below."""
    if not isinstance(node, ast.JoinedStr) or len(node.values) < 2:
        return False
    if ast.unparse(node).endswith("/'"):  # the root alone, to be cut off
        return False
    root, rest = node.values[0], node.values[1]
    if not isinstance(root, ast.FormattedValue) or not isinstance(rest, ast.Constant):
        return False
    of_table = re.search(r"(^|\.)(root|location|version_root)$", ast.unparse(root.value))
    return of_table is not None and str(rest.value).startswith("/")


def test_rows_are_not_python_objects_on_their_way() -> None:
    ways = ("kafka/", "mergetree/", "filestore/data/", "spark/jobs/")
    assert {
        dotted_name(name)
        for name in modules("stream_app")
        if name.removeprefix("stream_app/").startswith(ways) and calls(tree_of(name), "to_pylist")
    } == set(READ_ONE_BY_ONE)


def test_time_goes_through_the_clock() -> None:
    users = {dotted_name(name) for name in BELOW_APP if uses_time(tree_of(name))}
    assert users - {"clock"} == listed_modules(bullet("Below `app`, time"))


def uses_time(tree: ast.Module) -> bool:
    for node in nodes_of(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="time"), attr=attr) if attr in _CLOCK:
                return True
            case ast.Call(func=ast.Attribute(value=ast.Call(func=function), attr="wait")):
                if ast.unparse(function).endswith("Event"):  # nobody sets it: it is a sleep
                    return True
            case ast.Call(func=ast.Attribute(attr="wait" | "awaitTermination"), args=[_, *_]):
                return True
            case ast.Call(func=ast.Attribute(value=joined_value, attr="join"), args=[_]):
                if ast.unparse(joined_value).endswith("thread"):  # a text joins, too
                    return True
    return False


@pytest.mark.parametrize(
    ("code", "is_seen"),
    [
        ("time.sleep(1)", True),
        ("Event().wait()", True),
        ("self._stop_requested.wait(left)", True),
        ("self._thread.join(1)", True),
        ("query.awaitTermination(1)", True),
        ("self._sync.wait()", False),
        ("', '.join(names)", False),
    ],
)
def test_waiting_is_seen(code: str, is_seen: bool) -> None:
    assert uses_time(ast.parse(code)) == is_seen


def test_fresh_names_alone_are_random() -> None:
    drawing = re.compile(r"\b(import|from) (random|secrets)\b|\burandom\(|np\.random|uuid1\(")
    assert [dotted_name(name) for name in BELOW_APP if drawing.search(text_of(name))] == []
    assert "uuid4" in bullet("Below `app` nothing is random")


def test_modules_have_no_state_but_what_the_page_lists() -> None:
    table = PAGE.split("| --- | --- | --- |")[1].split("\n\n")[0]
    stateful = {dotted_name(name) for name in modules("stream_app") if any(state(tree_of(name)))}
    assert stateful - PURE == {re.split(r"`", line)[1] for line in table.strip().splitlines()}


def state(tree: ast.Module) -> Iterator[ast.AST]:
    """Containers that change, functions that remember, and variables that are set again."""
    for node in tree.body:
        match node:
            case ast.Assign(value=ast.Call() as call) | ast.AnnAssign(value=ast.Call() as call):
                function = ast.unparse(call.func).split("(")[0].split(".")[-1]
                if function in _CONSTRUCTORS or (function in _CONTAINERS and not call.args):
                    yield node
            case ast.AnnAssign(annotation=kind, value=ast.Dict(keys=[]) | ast.List(elts=[])):
                if ast.unparse(kind).startswith(("dict", "list")):
                    yield node
            case ast.FunctionDef(decorator_list=decorators):
                if any(
                    re.match(r"(functools\.)?(lru_)?cache\b", ast.unparse(d)) for d in decorators
                ):
                    yield node
    yield from (node for node in nodes_of(tree) if isinstance(node, ast.Global))


def test_what_outlives_a_task_on_disk_is_listed() -> None:
    keeping = {dotted_name(name) for name in BELOW_APP if "import kept_folder" in text_of(name)}
    assert keeping == listed_modules(bullet("On an executor's disk"))
