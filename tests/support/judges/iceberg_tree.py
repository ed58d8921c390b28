"""A table's Iceberg metadata as plain fields, to compare the trees of two writers.

A field is named by its place, such as ``manifest list: content`` or ``metadata: location``. Its
values are those of all such places, in an order that depends on them alone; of headers each value
once, because writers choose how many manifests there are. What is null is left out.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import fastavro

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OF_HEADERS = "manifest: "
_COLUMN_MAPS = ("null_value_counts", "lower_bounds", "upper_bounds")


def iceberg_fields(table: Path) -> dict[str, list[str]]:
    """Return the fields of the latest version, its manifest list and its manifests.

    Args:
        table: the table's folder, with the folder ``metadata`` in it.
    """
    fields: dict[str, list[str]] = defaultdict(list)
    for place, value in _walk(table):
        text = _UUID.sub("UUID", repr(value)).replace(str(table), "TABLE")
        fields[place].append(text)
    return {
        place: sorted(set(values) if place.startswith(_OF_HEADERS) else values)
        for place, values in fields.items()
    }


def _walk(table: Path) -> Iterator[tuple[str, Any]]:
    folder = table / "metadata"
    version = (folder / "version-hint.text").read_text()
    document = json.loads((folder / f"v{version}.metadata.json").read_text())
    snapshots = document.pop("snapshots")
    yield from _leaves("metadata", document)
    for snapshot in snapshots:
        yield from _leaves("snapshot", snapshot)
    [current] = [
        snapshot
        for snapshot in snapshots
        if snapshot["snapshot-id"] == document["current-snapshot-id"]
    ]
    header, manifests = _avro(current["manifest-list"])
    yield from (("manifest list: header", key) for key in header)
    for manifest in manifests:
        yield from _leaves("manifest list", manifest)
        header, entries = _avro(manifest["manifest_path"])
        yield from (("manifest: header", key) for key in header)
        yield from _avro_fields("manifest: avro", json.loads(header["avro.schema"]))
        for entry in entries:
            file = entry.pop("data_file")
            kind = "vector" if file["content"] else "file"
            yield from _leaves(f"{kind}: entry", entry)
            yield from _leaves(kind, {**file, **_columns(file)})


def _columns(file: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the maps by a column's id, which Avro has as pairs."""
    return {
        name: {str(pair["key"]): pair["value"] for pair in file[name] or ()}
        for name in _COLUMN_MAPS
    }


def _avro(path: str) -> tuple[Mapping[str, Any], list[Any]]:
    with Path(path).open("rb") as data:
        reader = fastavro.reader(data)
        return reader.metadata, list(reader)


def _avro_fields(place: str, schema: Any) -> Iterator[tuple[str, Any]]:
    """Yield the id and the type of each field of a schema of Avro; optional or not is left out."""
    [schema] = (
        [branch for branch in schema if branch != "null"] if isinstance(schema, list) else [schema]
    )
    if not isinstance(schema, dict):
        yield place, schema
        return
    rest = {key: value for key, value in schema.items() if key not in ("fields", "items")}
    yield place, sorted(rest.items())
    for field in schema.get("fields", ()):
        inner = f"{place}.{field['name']}"
        yield inner, field["field-id"]
        yield from _avro_fields(inner, field["type"])
    if "items" in schema:
        yield from _avro_fields(f"{place}[]", schema["items"])


def _leaves(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values in a value; parts of lists share a place."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            separator = "." if ":" in place else ": "
            yield from _leaves(f"{place}{separator}{key}", part)
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(place, part)
    elif value is not None:
        yield place, value
