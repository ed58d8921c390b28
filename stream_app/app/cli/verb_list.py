"""The verbs of the command line: their one list, which `main` runs and ``run.sh help`` prints.

It needs only Python: ``run.sh`` runs this file before anything is installed.
"""

from __future__ import annotations

from dataclasses import dataclass

_VERB_PACKAGE = "stream_app.app.cli.verbs"


@dataclass(frozen=True, slots=True)
class Verb:
    """The facts about a verb that the command line needs before it imports the module."""

    name: str
    module: str
    summary: str


def _verb(name: str, summary: str) -> Verb:
    return Verb(name, f"{_VERB_PACKAGE}.{name}", summary)


def _upkeep(name: str, summary: str) -> Verb:
    return Verb(name, f"{_VERB_PACKAGE}.upkeep.{name.replace('-', '_')}", summary)


VERBS = (
    # It has no module of `verbs`, because the package `demo` is above `app`.
    Verb(
        "demo",
        "stream_app.demo.demo",
        "watch a shop's database become tables, ALTER and crash included",
    ),
    _verb("ingest", "run the job: changes in Kafka become rows of one Paimon table, or of many"),
    _verb("doctor", "check everything that a job needs, and say what to fix"),
    _verb("broker", "run a Kafka broker for trials"),
    _verb("status", "show how far a job is, table by table"),
    _verb("web", "show tables in a browser"),
    _verb("top", "watch tables in a terminal"),
    _verb("resume", "let a job try held tables again"),
    _verb("compact", "compact a table outside of its job"),
    _verb("read", "print a table's rows"),
    _verb("changelog", "print a table's changes"),
    _upkeep("expire-snapshots", "delete old snapshots, and the files that only they need"),
    _upkeep("expire-partitions", "drop expired partitions"),
    _verb("inspect", "show snapshots, files and levels of a table"),
    _verb("check", "check that a table is sound, or equal to its source"),
    _verb("quarantine", "list, show, replay or drop the records that a job could not store"),
    _verb("backfill", "read a table's source again, and write what differs"),
    _upkeep("analyze", "publish statistics of a table for the planners of engines"),
    _upkeep("create-tag", "name a version, and keep it from expiring"),
    _upkeep("delete-tag", "delete tags and the files that only they need"),
    _upkeep("branch", "list, create, delete or fast-forward branches of a table"),
    _verb("init", "write a configuration from a topic or a database"),
    _upkeep("alter", "change a table's columns, options and comments"),
    _upkeep("rescale", "give partitions another number of buckets"),
    _upkeep("rollback-to", "roll back to an earlier version"),
    _upkeep("drop-partition", "delete partitions' rows"),
    _upkeep("truncate", "delete all rows of a table"),
    _upkeep("remove-orphan-files", "delete orphans: files that no version names"),
)

if __name__ == "__main__":
    for verb in VERBS:
        print(f"  {verb.name:19} {verb.summary}")
