"""The origin of rows: a table of the source, by database, schema and table."""

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
        database, schema: empty where the messages lack them.
        cluster: the further Kafka cluster whose topics bring its rows; empty: the job's first one.
    """

    database: str
    schema: str
    table: str
    cluster: str = ""

    def __str__(self) -> str:
        name = ".".join(filter(None, (self.database, self.schema, self.table)))
        return in_cluster(self.cluster, name)

    @property
    def place(self) -> tuple[str, str, str]:
        """The cluster, the database and the schema."""
        return self.cluster, self.database, self.schema

    def document(self) -> dict[str, str]:
        """The origin as JSON; the job's first cluster is not named."""
        document = asdict(self)
        if not self.cluster:
            del document["cluster"]
        return document


def origin_of(document: Mapping[str, Any]) -> Origin:
    """The origin in a document of `Origin.document`."""
    return Origin(
        document["database"], document["schema"], document["table"], document.get("cluster", "")
    )


def ghost_of(name: str) -> str:
    """The table that an online schema change copies into a table of this name, or empty.

    The tool fills the copy, and swaps both tables by a RENAME TABLE. Each row of the copy is in the
    table, too, or gets into it by the swap.
    """
    match = _GHOST.fullmatch(name)
    return match[1] if match else ""
