"""Decides which options of a table may change, and how options follow a renamed column.

Source: Paimon `schema/SchemaManager.java#checkAlterTableOption`, `#checkResetTableOption`,
`#applyRenameColumnsToOptions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stream_app.model.options.bucket_options import BUCKET, BUCKET_KEY
from stream_app.model.options.core_options import option_problems
from stream_app.model.options.file_options import DELETION_VECTORS_ENABLED
from stream_app.model.options.merge_options import (
    IGNORE_DELETE,
    IGNORE_UPDATE_BEFORE,
    SEQUENCE_FIELD,
)
from stream_app.model.options.option import is_on, is_true
from stream_app.model.options.schema_options import DELETION_VECTORS_MODIFIABLE
from stream_app.model.schema.table_only_options import IMMUTABLE_OPTIONS, OptionDifference

_ONE_WAY = (IGNORE_DELETE.key, IGNORE_UPDATE_BEFORE.key)
"""Options that may be turned on and never off."""
_COLUMN_LISTS = (BUCKET_KEY.key, SEQUENCE_FIELD.key)
_FIELDS = "fields."
_GROUPS = (".sequence-group", ".nested-key")
"""Suffixes of keys that contain column names, and whose values are column names too."""


def problem_of_setting(
    options: Mapping[str, str], key: str, value: str, *, has_snapshots: bool
) -> str | None:
    """Return the reason why an option cannot get this value; None if it can."""
    if options.get(key) == value:
        return None
    if key == "type":
        return "the option 'type' cannot change"
    if problems := option_problems({key: value}):
        return problems[0]
    if not has_snapshots:
        return None
    if key in IMMUTABLE_OPTIONS:
        return f"the option {key!r} cannot change in a table with snapshots"
    return _value_problem(options, key, value)


def _value_problem(options: Mapping[str, str], key: str, value: str) -> str | None:
    if key == BUCKET.key:
        if "-1" in (options.get(key, "-1"), value):
            return "the option 'bucket' cannot change from or to -1"
    elif key == DELETION_VECTORS_ENABLED.key:
        is_changed = is_on(options, key) != is_true(value)
        if is_changed and not DELETION_VECTORS_MODIFIABLE.read(options):
            return "'deletion-vectors.enabled' needs 'deletion-vectors.modifiable' = 'true'"
    elif key in _ONE_WAY and is_on(options, key) and not is_true(value):
        return f"the option {key!r} cannot change from true to false"
    return None


def problem_of_unsetting(
    options: Mapping[str, str], key: str, *, has_snapshots: bool
) -> str | None:
    """Return the reason why an option cannot be reset to its default; None if it can."""
    if key not in options:
        return f"the table has no option {key!r}"
    if key == "type":
        return "the option 'type' cannot change"
    if not has_snapshots:
        return None
    if key in IMMUTABLE_OPTIONS or key == BUCKET.key:
        return f"the option {key!r} cannot be unset in a table with snapshots"
    return _value_problem(options, key, "false") if key == DELETION_VECTORS_ENABLED.key else None


def difference_fix(
    location: str, options: Mapping[str, str], differences: Iterable[OptionDifference]
) -> str:
    """Return the remedy for a configuration that contradicts the table's options."""
    differences = list(differences)
    fix = f"take {', '.join(difference.key for difference in differences)} out of the configuration"
    for difference in differences:
        # A new number of buckets needs a rewrite of the table, not only an option.
        if difference.key == BUCKET.key or problem_of_setting(
            options, difference.key, difference.configured_value, has_snapshots=True
        ):
            return f"{fix}: a table keeps what it was made with"
    flags = " ".join(
        f"--set '{difference.key}={difference.configured_value}'" for difference in differences
    )
    return f"{fix}, or change the table for all its jobs: stream-app alter {location} {flags}"


def rename_in_options(options: Mapping[str, str], old_name: str, new_name: str) -> dict[str, str]:
    """Return the options with a column's new name, in keys and in lists of columns."""
    result = {}
    for key, value in options.items():
        names_columns = key in _COLUMN_LISTS or (key.startswith(_FIELDS) and key.endswith(_GROUPS))
        result[_rename_in_key(key, old_name, new_name)] = (
            _rename_in_list(value, old_name, new_name) if names_columns else value
        )
    return result


def _rename_in_key(key: str, old_name: str, new_name: str) -> str:
    if not key.startswith(_FIELDS):
        return key
    columns, dot, setting = key.removeprefix(_FIELDS).rpartition(".")
    return f"{_FIELDS}{_rename_in_list(columns, old_name, new_name)}{dot}{setting}"


def _rename_in_list(columns: str, old_name: str, new_name: str) -> str:
    names = [name.strip() for name in columns.split(",")]
    return (
        ",".join(new_name if name == old_name else name for name in names)
        if old_name in names
        else columns
    )
