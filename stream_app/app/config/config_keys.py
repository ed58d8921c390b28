"""Declares a section's field as a key of the configuration, with converter, default and meaning.

A new key is a field of its section's class, in `source_config`, `table_config`, `sync_config`,
`expectations_config` or `stream_config`. The classes call `config_key` and `config_key_family`. A
test generates docs/reference/options.md from the declarations, and `app_config` reads a
configuration by them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from stream_app.app.config.values import Setting, free_text

Value = TypeVar("Value")


def config_key(
    convert: Callable[[Setting], Value],
    default: Value,
    *,
    meaning: str,
    required: str = "",
    is_secret: bool = False,
) -> Value:
    """Declare a field as a key of its section.

    Args:
        convert: converts a value.
        meaning: describes the key to users, in Markdown.
        required: the condition under which the key must be given; empty for an optional key.
    """
    metadata = {"convert": convert, "meaning": meaning, "required": required}
    declaration: Value = field(default=default, repr=not is_secret, metadata=metadata)
    return declaration


@dataclass(frozen=True, slots=True)
class KeyFamily:
    """The keys that share a prefix.

    Attributes:
        name: the field that maps the rest of each key to its value.
        convert: converts a value, given its setting and the rest of its key.
    """

    name: str
    convert: Callable[[Setting, str], object]


def config_key_family(
    *prefixes: str,
    meaning: str,
    convert: Callable[[Setting, str], object] = lambda setting, _rest: free_text(setting),
    is_secret: bool = False,
) -> Any:
    """Declare a field for all keys with a prefix, and the converter of their values."""
    metadata = {"prefixes": prefixes, "convert_member": convert, "meaning": meaning}
    return field(default_factory=dict, repr=not is_secret, metadata=metadata)


def keys_of(section: type[Any]) -> dict[str, Callable[[Setting], object]]:
    """Return key → converter, for the keys that a section's fields declare."""
    return {
        key_field.name.replace("_", "-"): key_field.metadata["convert"]
        for key_field in fields(section)
        if "convert" in key_field.metadata
    }


def families_of(section: type[Any]) -> dict[str, KeyFamily]:
    """Return prefix → family, for the key families that a section's fields declare."""
    return {
        prefix: KeyFamily(key_field.name, key_field.metadata["convert_member"])
        for key_field in fields(section)
        for prefix in key_field.metadata.get("prefixes", ())
    }
