"""Defines the origin of rows: a source table, by database, schema and table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from stream_app.model.source.topic_name import in_cluster

_GHOST = re.compile(r"_+(.+?)(?:_\d{14})?_(?:gho|ghc|del|new|old)")
"""Names of gh-ost (``gho``, ``ghc``, ``del``) and of pt-online-schema-change (``new``, ``old``)."""


@dataclass(frozen=True, slots=True, order=True)
class Origin:
    """A table of the source. PostgreSQL names a schema, MySQL none.

    Attributes:
        database, schema: empty if the messages lack them.
        cluster: the further Kafka cluster whose topics have its rows; empty: the job's first one.
    """

    database: str
    schema: str
    table: str
    cluster: str = ""

    def __str__(self) -> str:
        name = ".".join(filter(None, (self.database, self.schema, self.table)))
        return in_cluster(self.cluster, name)

    @property
    def namespace(self) -> tuple[str, str, str]:
        """The cluster, the database and the schema."""
        return self.cluster, self.database, self.schema

    def document(self) -> dict[str, str]:
        """Return the origin as JSON, which does not name the job's first cluster."""
        document = asdict(self)
        if not self.cluster:
            del document["cluster"]
        return document


def origin_of(document: Mapping[str, Any]) -> Origin:
    """Parse an origin from the result of `Origin.document`."""
    return Origin(
        document["database"], document["schema"], document["table"], document.get("cluster", "")
    )


def ghost_of(name: str) -> str:
    """Return the table that an online schema change copies to a table of this name, or empty.

    The tool fills the copy, and swaps both tables by RENAME TABLE. Each row of the copy is also in
    the table, or gets there by the swap.
    """
    match = _GHOST.fullmatch(name)
    return match[1] if match else ""
