"""Manifest entries from and to one line of text, for text tests."""

from __future__ import annotations

from stream_app.format.binary_row import deserialize_row, serialize_row
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry
from stream_app.model.schema.data_type import parse_columns
from tests.support.tables.lsm_files import a_file

PARTITION = tuple(column.data_type for column in parse_columns("dt STRING NOT NULL"))


def entry_of(line: str) -> ManifestEntry:
    name, *words = line.split()
    keys, level, values = (1, 9), 0, {"bucket": "0", "of": "2", "dt": "a"}
    for word in words:
        if "=" in word:
            key, _, value = word.partition("=")
            values[key] = value
        elif word.startswith("L"):
            level = int(word[1:])
        else:
            first, last = word.split("-")
            keys = (int(first), int(last))
    return ManifestEntry(
        kind=FileKind.ADD if name[0] == "+" else FileKind.DELETE,
        partition=serialize_row([values["dt"]], PARTITION),
        bucket=int(values["bucket"]),
        total_buckets=int(values["of"]),
        file=a_file(name[1:], keys=keys, level=level),
    )


def show(entry: ManifestEntry) -> str:
    words = [("+" if entry.kind is FileKind.ADD else "-") + entry.file.file_name]
    words.append(f"L{entry.file.level}")
    if entry.bucket:
        words.append(f"bucket={entry.bucket}")
    [partition] = deserialize_row(entry.partition, PARTITION)
    if partition != "a":
        words.append(f"dt={partition}")
    return " ".join(words)
