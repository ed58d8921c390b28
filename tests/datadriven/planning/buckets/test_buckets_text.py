"""Decides which buckets get new keys, and how many buckets a partition should have, as text.

* `open`: each line has a bucket and the number of its hashes. The output lists the buckets that get
  new keys.
* `advice`: each line has the rows and the size of a bucket. The output says whether their number
  fits.
* `rescale` and `groups`: each line is a file, written ``a/0 of 2 L5 900 mb`` for bucket 0 of 2 of
  partition a.
* `alike`: the lines list the files of an index, written ``a/0=f1`` for bucket 0 of partition a. The
  output says whether rows that were routed by an older index are still right.
"""

from __future__ import annotations

from pathlib import Path

from stream_app.model.bucket_id import BucketId
from stream_app.model.files.data_file_meta import EMPTY_STATS, DataFileMeta
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry
from stream_app.planning.buckets.bucket_advice import BucketSize, bucket_advice
from stream_app.planning.buckets.open_buckets import DynamicBucketRules, open_buckets
from stream_app.planning.buckets.rescale_plan import planned_rescales, split_groups
from stream_app.planning.buckets.stale_routing import Index, IndexReplacement, is_routed_alike
from tests.support.suite.datadriven import Case, run_file

HERE = Path(__file__).parent


def _open(case: Case) -> str:
    counts = {
        int(bucket): int(hashes)
        for bucket, hashes in (line.split(":") for line in case.input_lines)
    }
    arguments = {"width": "1", "max": "32767", **case.args}
    rules = DynamicBucketRules(
        target_row_count=int(arguments["target"]),
        width=int(arguments["width"]),
        max_buckets=int(arguments["max"]),
    )
    return " ".join(map(str, open_buckets(counts, rules)))


def _index(words: list[str]) -> Index:
    files = {}
    for word in words:
        place, _, name = word.partition("=")
        partition, _, bucket = place.partition("/")
        files[BucketId(partition.encode(), int(bucket))] = name
    return files


def _alike(case: Case) -> str:
    indexes: dict[str, Index] = {}
    open_in: dict[bytes, tuple[int, ...]] = {}
    replacements: dict[str, IndexReplacement] = {}
    for line in case.input_lines:
        match line.split():
            case ["routed" | "newest" as which, *files]:
                indexes[which] = _index(files)
            case ["open", partition, *buckets]:
                open_in[partition.encode()] = tuple(map(int, buckets))
            case ["replacement", name, "after", before, "open", *buckets]:
                replacements[name] = IndexReplacement(before, tuple(map(int, buckets)))
            case ["replacement", name, "new", "open", *buckets]:
                replacements[name] = IndexReplacement(None, tuple(map(int, buckets)))
            case _:
                raise AssertionError(line)
    alike = is_routed_alike(indexes["routed"], indexes["newest"], open_in.__getitem__, replacements)
    return "yes" if alike else "no"


def _advice(case: Case) -> str:
    sizes = []
    for line in case.input_lines:
        partition, rows, _, size, _ = line.split()
        sizes.append(
            BucketSize(
                partition=partition.encode(), row_count=int(rows), byte_count=int(size) << 20
            )
        )
    arguments = {"width": "1", "target": "2000000", **case.args}
    advice = bucket_advice(
        sizes,
        bucket_count=int(arguments["bucket"]),
        width=int(arguments["width"]),
        target_row_count=int(arguments["target"]),
    )
    if advice is None:
        return "fine"
    which = "large" if advice.is_large else "small"
    return f"too {which}, {advice.mean_size >> 20} mb on average: {advice.option} = {advice.value}"


def _entries(case: Case) -> list[ManifestEntry]:
    entries = []
    for number, line in enumerate(case.input_lines):
        place, _, total, level, size, _ = line.split()
        partition, bucket = place.split("/")
        file = DataFileMeta(
            file_name=f"f{number}",
            file_size=int(size) << 20,
            row_count=1000,
            min_key=b"",
            max_key=b"",
            key_stats=EMPTY_STATS,
            value_stats=EMPTY_STATS,
            min_sequence_number=0,
            max_sequence_number=0,
            schema_id=0,
            level=int(level.removeprefix("L")),
        )
        entries.append(
            ManifestEntry(
                kind=FileKind.ADD,
                partition=partition.encode(),
                bucket=int(bucket),
                total_buckets=int(total),
                file=file,
            )
        )
    return entries


def _rescale(case: Case) -> str:
    count_text = case.args["to"]
    rescale_plans = planned_rescales(
        _entries(case), None if count_text == "auto" else int(count_text)
    )
    return "\n".join(
        f"{partition.partition.decode()}: {partition.old_bucket_count} to "
        f"{partition.new_bucket_count}, "
        f"{partition.file_count} files, {partition.byte_count >> 20} mb"
        for partition in rescale_plans
    )


def _groups(case: Case) -> str:
    return "\n".join(
        " ".join(entry.file.file_name for entry in group)
        for group in split_groups(
            _entries(case), int(case.args["to"]), has_keys="keyless" not in case.args
        )
    )


def test_partitions_that_are_rescaled() -> None:
    run_file(HERE / "rescale.txt", lambda case: _COMMANDS[case.command](case))


_COMMANDS = {"rescale": _rescale, "groups": _groups}


def test_advice_of_bucket_sizes() -> None:
    run_file(HERE / "bucket_advice.txt", _advice)


def test_open_buckets() -> None:
    run_file(HERE / "open_buckets.txt", _open)


def test_rows_that_were_routed_by_an_older_index() -> None:
    run_file(HERE / "routed_alike.txt", _alike)
