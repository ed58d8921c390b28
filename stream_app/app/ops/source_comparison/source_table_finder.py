"""Finds a database's tables for each table of a job, for `check --conf --source`.

The checkpoint records the source tables of a table's rows. A job of one table may name its source
table in the configuration. `sum_sides` compares them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain

from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.ops.source_comparison.database_side import SummedDatabase, SummedSource
from stream_app.app.source.captured_tables import read_relations, relation_origin
from stream_app.app.source.sql_texts import dialect_of
from stream_app.checkpoint.job_state import JobState
from stream_app.errors import SourceError, UnsupportedTableError, UsageError
from stream_app.model.finding import Finding, FindingKind
from stream_app.model.source.origin import Origin
from stream_app.model.source.topic_name import cluster_and_name
from stream_app.network.jdbc import POSTGRESQL, JdbcUrl
from stream_app.table.file_store_table import FileStoreTable


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTableFinder:
    """A finder of the source tables of a job's tables in one database.

    Attributes:
        state: the state in the job's checkpoint.
    """

    job_tables: JobTables
    state: JobState
    database: SummedDatabase

    def source_of(self, table: FileStoreTable, relation: str | None = None) -> SummedSource | None:
        """Return the source tables of a table, or None if its rows come from other databases.

        Args:
            relation: the name of the source table, if the command line names it.

        Raises:
            UnsupportedTableError: the database's rows are not exactly those of the table.
        """
        table_config = self.job_tables.table_config(table.name, table.schema.fields)
        if table_config.filter is not None:
            raise UnsupportedTableError(
                f"the job's filter leaves rows of the source out: {table_config.filter}",
                where=table.location,
                fix="compare with the topics instead, without --source",
            )
        origins = self._origins(table)
        self._check_clusters(table, origins, is_named=relation is not None)
        relations = [relation] if relation is not None else self._relations(table, origins)
        if not relations:
            return None
        return SummedSource(
            relations=relations,
            column_of=self.job_tables.source_of(table.name).column_of,
            job_columns=table_config.made_columns.names,
        )

    def own_source_of(self, table: FileStoreTable, relation: str | None) -> SummedSource:
        """Return the result of `source_of` for a table that the command line names.

        Raises:
            UsageError: the table's rows come from other databases.
            UnsupportedTableError: see `source_of`.
        """
        summed_source = self.source_of(table, relation)
        if summed_source is None:
            raise UsageError(
                "the rows of the table come from another database",
                where=str(self.database.url),
                fix="name the database (--source), or also the table there (--source-table)",
            )
        return summed_source

    def missing_tables(self) -> Iterator[Finding]:
        """Yield findings about source tables that have rows and should have a table, but have none.

        It skips partitioned tables, because messages may name them or their partitions.
        """
        url = self.database.url
        for (schema, name), relation in sorted(
            read_relations(self.database.connection, url).items()
        ):
            origin = relation_origin(url, schema, name)
            is_partitioned = relation.is_root or relation.is_partition
            if origin.database != url.database or is_partitioned or self._knows(origin):
                continue
            is_wanted = self.job_tables.new_name(origin, self.state.targets) is not None
            if is_wanted and self._has_rows(schema, name):
                yield Finding(
                    kind=FindingKind.NOT_COMPARED,
                    problem=f"{schema}.{name} has rows, and the job has met no message of it",
                    where=str(url),
                    fix="let the connector send it; or leave it out by sync.excluding-tables",
                )

    def _knows(self, origin: Origin) -> bool:
        """Return whether the job has met a message of a source table."""
        return any(
            known_origin.table == origin.table
            and known_origin.database in ("", origin.database)
            and known_origin.schema in ("", origin.schema)
            for known_origin in chain(self.state.targets, self.state.refused_tables)
        )

    def _has_rows(self, schema: str, name: str) -> bool:
        relation = dialect_of(self.database.url.driver).name(schema, name)
        with suppress(SourceError):  # the user may not read it
            return bool(self.database.rows_of_query(f"select 1 from {relation} limit 1"))
        return True

    def _origins(self, table: FileStoreTable) -> Sequence[Origin]:
        """Return the source tables that have sent rows of a table, as far as messages name them."""
        origins = {origin for origin, name in self.state.targets.items() if name == table.name}
        origins |= {
            replace(_parsed_name(name, self.database.url), cluster=cluster_and_name(topic)[0])
            for topic, names in self.state.source_tables_of().items()
            for name in names
        }
        return sorted(origins)

    def _check_clusters(
        self, table: FileStoreTable, origins: Sequence[Origin], *, is_named: bool
    ) -> None:
        """Refuse a table whose rows come from several clusters, or perhaps from another one.

        Databases of several clusters may have source tables of the same name.
        """
        clusters = {origin.cluster for origin in origins}
        names = {replace(origin, cluster="") for origin in origins}
        if len(clusters) > 1 and (is_named or len(names) < len(origins)):
            raise UnsupportedTableError(
                f"the table has rows of several clusters: {', '.join(map(str, origins))}",
                where=table.location,
                fix="compare with the topics instead, without --source",
            )
        foreign_tables = [
            str(origin)
            for origin in self.state.targets
            if origin.cluster not in clusters and replace(origin, cluster="") in names
        ]
        if foreign_tables and not is_named:
            raise UnsupportedTableError(
                "other clusters have a table of this name too: "
                f"{', '.join(sorted(foreign_tables))}",
                where=table.location,
                fix="name the table, and the one in the database by --source-table, if the "
                "database is that of this table's cluster",
            )

    def _relations(self, table: FileStoreTable, origins: Sequence[Origin]) -> Sequence[str]:
        job_tables = self.job_tables
        if job_tables.source.snapshot_table is not None:
            return [job_tables.source.snapshot_table]
        origin_names = sorted({replace(origin, cluster="") for origin in origins if origin.table})
        if not origin_names and job_tables.loaded_source_table is not None:
            return [job_tables.loaded_source_table]
        return self._relations_in_database(table, origin_names)

    def _relations_in_database(
        self, table: FileStoreTable, origins: Sequence[Origin]
    ) -> Sequence[str]:
        """Return the names of the source tables in this database; empty if all are elsewhere."""
        own_origins = [origin for origin in origins if _names_table(self.database.url, origin)]
        if own_origins and len(own_origins) < len(origins):
            foreign_origins_text = ", ".join(
                str(origin) for origin in origins if origin not in own_origins
            )
            raise UnsupportedTableError(
                f"the table has rows of other databases too: {foreign_origins_text}",
                where=table.location,
                fix="compare with the topics instead, without --source",
            )
        is_postgres = self.database.url.driver is POSTGRESQL
        qualified_names = [
            (origin.schema if is_postgres else origin.database, origin.table)
            for origin in own_origins
        ]
        for name in chain.from_iterable(qualified_names):
            if "." in name:
                raise UnsupportedTableError(
                    f"the name {name!r} has a dot, but a dot separates schema and table here",
                    where=table.location,
                    fix="compare with the topics instead, without --source",
                )
        return [".".join(filter(None, names)) for names in qualified_names]


def _names_table(url: JdbcUrl, origin: Origin) -> bool:
    """Return whether a database's messages name this source table.

    A MySQL server has several databases.
    """
    if url.driver is POSTGRESQL:
        return origin.database in ("", url.database)
    return not origin.schema


def _parsed_name(name: str, url: JdbcUrl) -> Origin:
    """Parse the name of a source table in a checkpoint into its database, schema and table."""
    *owners, table = name.split(".")
    if url.driver is POSTGRESQL:
        return Origin(".".join(owners[:-1]), owners[-1] if owners else "", table)
    return Origin(".".join(owners), "", table)
