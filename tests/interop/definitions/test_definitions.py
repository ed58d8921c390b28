"""stream_app refuses the tables that Paimon's Java refuses, and a listed few more."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from stream_app.errors import StreamAppError
from stream_app.model.options.core_options import check_writable, option_problems
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import schema_problems
from tests.support.judges.paimon_java import PaimonJava

pytestmark = pytest.mark.java

COLUMNS = {
    "k": "INT NOT NULL", "p": "STRING NOT NULL", "a": "INT", "b": "STRING", "g": "BIGINT",
    "h": "BIGINT", "t": "BOOLEAN", "y": "BYTES", "d": "DATE", "n": "INT NOT NULL",
}  # fmt: skip
OURS_ALONE = {
    "with a fixed number of buckets partition keys must be part": "Paimon refuses it at the write",
    "record-level.time-field is not set": "Paimon refuses it at the write",
    "it holds texts such as +I": "Paimon refuses it at the write",
    ", and the column is ": "Paimon's functions fail at the first row, or at the second of a key",
    "the delimiter cannot be empty": "Paimon's function fails at the first row",
    "and fields.a.ignore-retract exclude each other": "Paimon refuses it at the write",
    "in 2 sequence-groups": "a column cannot follow two sequences",
    "'num-levels': '1'": "a tree of one level cannot be compacted",
    "of a row that moves to another partition": "Paimon then keeps two rows of a key",
    "option 'scan.": "readers would read other rows: a read gets its version as an argument",
    "option 'incremental-": "the same",
    "(scan.timestamp: ": "Paimon's reads fail: there is no time of day",
}
"""Words of our refusals where Paimon opens the table, and the reason for each."""

Definition = dict[str, Any]
KEYS = [(("k", "p"), ("p",)), (("k",), ()), (("k",), ("p",)), ((), ("p",)), ((), ())]
ENGINES = ["deduplicate", "partial-update", "aggregation", "first-row"]
PRODUCERS = ["none", "input", "lookup", "full-compaction"]
FUNCTIONS = [
    "sum", "product", "count", "max", "min", "last_value", "first_value", "first_not_null_value",
    "listagg", "bool_and", "rbm32", "hll_sketch", "primary-key", "nope",
]  # fmt: skip
EXTRAS = """\
sequence.field=g fields.g.aggregate-function=sum|sequence.field=g,g|sequence.field=g
sequence.field=zz
sequence.field=g fields.a.sequence-group=b|fields.g.sequence-group=a fields.h.sequence-group=a
fields.g.sequence-group=a fields.g,h.sequence-group=b|fields.g.sequence-group=a,g
fields.g.sequence-group=h fields.h.sequence-group=a|fields.g.sequence-group=zz
fields.zz.sequence-group=a|fields.g.sequence-group=a partial-update.remove-record-on-delete=true
fields.g.sequence-group=a partial-update.remove-record-on-sequence-group=g
fields.g.sequence-group=a partial-update.remove-record-on-sequence-group=a
partial-update.remove-record-on-sequence-group=g|fields.k.sequence-group=a|fields.g.sequence-group=k
ignore-delete=true fields.g.sequence-group=a partial-update.remove-record-on-sequence-group=g
aggregation.remove-record-on-delete=true fields.a.ignore-retract=true|ignore-delete=true
rowkind.field=zz|rowkind.field=b|rowkind.field=a|fields.zz.aggregate-function=sum
fields.b.distinct=true fields.b.aggregate-function=listagg fields.b.list-agg-delimiter=
changelog-producer=lookup streaming-read-overwrite=true|streaming-read-overwrite=true
changelog-producer=full-compaction streaming-read-overwrite=true|force-lookup=true
changelog-producer=input|deletion-vectors.enabled=true|deletion-vectors.enabled=yes
partition.expiration-time=1d|record-level.time-field=b|record-level.time-field=zz
record-level.time-field=a|record-level.expire-time=1d
record-level.expire-time=1d record-level.time-field=b
snapshot.num-retained.min=0|snapshot.num-retained.min=9 snapshot.num-retained.max=3
changelog.num-retained.min=9 changelog.num-retained.max=3|changelog.num-retained.max=5
bucket-key=k bucket=-1|bucket-key=a|bucket=0|bucket=-3|bucket=-1 full-compaction.delta-commits=2
bucket-key=k bucket=3|bucket=3|full-compaction.delta-commits=2
scan.mode=from-snapshot|scan.mode=latest scan.snapshot-id=3|scan.mode=from-timestamp
scan.mode=from-timestamp log.scan.timestamp-millis=3|scan.timestamp-millis=3 scan.snapshot-id=3
scan.mode=from-snapshot-full scan.snapshot-id=3|scan.mode=from-snapshot-full scan.tag-name=x
scan.mode=incremental incremental-between=1,2|scan.mode=incremental|incremental-to-auto-tag=x
scan.mode=from-file-creation-time scan.timestamp-millis=1|scan.file-creation-time-millis=3
scan.version=3|scan.tag-name=x scan.snapshot-id=3|scan.watermark=4 scan.tag-name=x|scan.watermark=4
scan.creation-time-millis=3|scan.mode=full scan.timestamp-millis=1
incremental-between-timestamp=1,2 incremental-between=1,2|scan.timestamp=2020-01-01
vector-field=a|vector-field=zz|blob-descriptor-field=a|blob-external-storage-field=a
table-read.sequence-number.enabled=true|num-levels=1|write-only=true changelog-producer=lookup"""


def option_sets() -> list[dict[str, str]]:
    words = (text.split() for text in EXTRAS.replace("\n", "|").split("|"))
    return [dict(word.partition("=")[::2] for word in options) for options in words]


def generated_definitions() -> Iterator[Definition]:
    for (keys, parts), engine, producer, vectors, bucket in itertools.product(
        KEYS, ENGINES, PRODUCERS, ["false", "true"], ["-2", "-1", "2"]
    ):
        yield definition(
            keys, parts, {"bucket": bucket, "merge-engine": engine},
            {"changelog-producer": producer, "deletion-vectors.enabled": vectors},
        )  # fmt: skip
    for engine, function, column in itertools.product(ENGINES, FUNCTIONS, "abgtydk"):
        group = {"fields.h.sequence-group": column} if engine == "partial-update" else {}
        aggregate = {f"fields.{column}.aggregate-function": function}
        yield definition(("k",), (), {"bucket": "2", "merge-engine": engine}, aggregate, group)
    for engine, function in itertools.product(ENGINES, FUNCTIONS):
        default = {"fields.default-aggregate-function": function}
        yield definition(("k",), (), {"bucket": "2", "merge-engine": engine}, default)
    for (keys, parts), engine, extra in itertools.product(KEYS[1:], ENGINES, option_sets()):
        in_buckets = {"bucket": "2"} if keys and not parts else {}
        yield definition(keys, parts, in_buckets, {"merge-engine": engine}, extra)


def definition(
    keys: tuple[str, ...], parts: tuple[str, ...], *options: dict[str, str]
) -> Definition:
    merged_options = {key: value for option in options for key, value in option.items()}
    return {"primary_keys": keys, "partition_keys": parts, "options": merged_options}


def our_problem_of(definition: Definition) -> str | None:
    keys = definition["primary_keys"]
    parts = definition["partition_keys"]
    options = definition["options"]
    columns = parse_columns(", ".join(f"{name} {kind}" for name, kind in COLUMNS.items()))
    if problems := option_problems(options) or schema_problems(columns, keys, parts, options):
        return "; ".join(problems)
    try:
        check_writable(options, keys, parts)
    except StreamAppError as error:
        return str(error)
    return None


def test_we_refuse_all_that_paimon_refuses_and_say_why_we_refuse_more(
    paimon_java: PaimonJava,
) -> None:
    definitions = list(generated_definitions())
    columns = list(COLUMNS.items())
    requests = [{"columns": columns, **definition} for definition in definitions]
    theirs = paimon_java.ask("definitions", definitions=requests)["problems"]
    accepted_counts = Counter[str]()
    for definition, problem in zip(definitions, theirs, strict=True):
        our_problem = our_problem_of(definition)
        if problem is not None:
            assert our_problem is not None, (definition, problem)
        elif our_problem is not None:
            accepted_counts[our_problem] += 1
    assert not [text for text in accepted_counts if not any(word in text for word in OURS_ALONE)]
    assert not [word for word in OURS_ALONE if not any(word in text for text in accepted_counts)]
