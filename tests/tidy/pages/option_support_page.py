"""The part of docs/reference/options.md on Paimon's options that stream_app leaves undone."""

from __future__ import annotations

from stream_app.model.options.option_support import IGNORED_KEYS, REFUSALS, Purpose
from stream_app.model.options.paimon_option_keys import PAIMON_KEYS

HEAD = ["option", "values", "refused for", "why"]
SUPPORT = """\
### Paimon's other options

Each option of Paimon 1.4, 2.0 and 2.1 has one decision here. A test holds the lists against the
newest PyPaimon. An option that is in none of them, nor in the table above, is *unknown*:

* **Writing** is refused: a job, `compact`, `alter`, `backfill`, `quarantine replay`, `truncate`,
  `drop-partition`. So are `expire-snapshots`, `expire-partitions`, tags, `rollback-to` and
  `remove-orphan-files`. What the option asks for may be just what they would break.
* **Reading** goes on, and a warning names the option. `check` repeats it, and ends with 3.
* `stream-app alter TABLE --unset OPTION` takes it out, if no reader or writer needs it.

A configuration that sets an unknown option is an error that names the nearest known one.
"""
REFUSED = """\
### Refused

The values at which an option refuses a table, and for what. With those marked *may go* the rows
mean the same without the option. If no engine needs what it asks for, a way out is
`stream-app alter TABLE --unset OPTION`.
"""
_PURPOSES = {
    Purpose.WRITE: "writing",
    Purpose.READ: "reading",
    Purpose.FIND: "upkeep",
    Purpose.EXPIRE: "expiry and tags",
}
LEFT_UNDONE = """\
### Left undone

These ask for work of a writing job that stream_app does not do. A job names those of its table in
one warning when it begins, unless their value asks for what the job does anyway.
`fields.….stats-mode`, `parquet.…`, `tag.automatic-creation = batch`, and `file-index.….columns`
with a key of a MAP belong here, too.
"""
HARMLESS = """\
### Harmless

These are for other engines, for kinds of tables that are refused by another option, or for
readers' speed. stream_app checks their values, stores them in the table's schema, and ignores
them. So are the rest of `fields.…`, `file-index.…`, `metadata.iceberg.…`, `commit.callback.…`,
`tag.callback.…`, and options of file formats and indexes, such as `orc.…` and `btree-index.…`.
"""


def harmless_keys() -> set[str]:
    """The keys of Paimon that stream_app neither reads nor refuses nor leaves undone."""
    return PAIMON_KEYS - IGNORED_KEYS - {refusal.key for refusal in REFUSALS}


def refusals_rows() -> list[list[str]]:
    """The rows of the table of refusals."""
    rows = []
    for refusal in REFUSALS:
        key = refusal.key.replace("*", "…") + ("…" if refusal.key.endswith(".") else "")
        purposes = ", ".join(
            text for purpose, text in _PURPOSES.items() if purpose in refusal.purposes
        )
        why = ". ".join(
            part
            for part in (
                refusal.reason[:1].upper() + refusal.reason[1:],
                "*May go*" * refusal.is_removable,
            )
            if part
        )
        rows.append([f"`{key}`", refusal.value_rule.text, purposes, f"{why}." if why else ""])
    return rows
