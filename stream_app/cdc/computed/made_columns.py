"""Decides a table's made columns, their origins and their order, and checks definitions.

The driver does so from the configuration, and finds all errors in its definitions here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from stream_app.cdc.computed.column_definition import (
    Definition,
    DefinitionError,
    parse_definition,
    sort_definitions,
)
from stream_app.cdc.computed.column_functions import (
    ArrowTypeOf,
    applied_function,
    function_of,
)
from stream_app.cdc.computed.metadata_columns import METADATA
from stream_app.model.near_names import did_you_mean, known_names_text
from stream_app.model.schema.data_type import (
    INTEGER_ROOTS,
    STRING,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    DataField,
    DataType,
    RowType,
    TypeRoot,
)
from stream_app.model.schema.history_columns import HistoryColumns

_WIDTHS = {
    root: width
    for width, root in enumerate(
        (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT)
    )
}


_SAMPLE_TYPES = (
    STRING,
    DataType(root=TypeRoot.BIGINT),
    DataType(root=TypeRoot.DOUBLE),
    DataType(root=TypeRoot.BOOLEAN),
    DataType(root=TypeRoot.DATE),
    DataType(root=TypeRoot.DECIMAL, precision=12, scale=2),
    DataType(root=TypeRoot.TIMESTAMP, precision=3),
)
"""One type of each sort that a column may have."""


class MetadataError(DefinitionError):
    """A metadata column that does not exist, or that is defined twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeColumns:
    """The made columns of a table, with their definitions.

    Attributes:
        definitions: of the computed columns, in an order in which each can be computed.
        metadata: name of the column → name of the metadata.
        writer_columns: the columns that the table's writer fills, with their types.
    """

    definitions: tuple[Definition, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    writer_columns: Mapping[str, DataType] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.definitions or self.metadata or self.writer_columns)

    def with_history(self, history: HistoryColumns) -> MadeColumns:
        """Return these columns and those of a history, in which a version's start is metadata.

        Raises:
            MetadataError: a column is defined twice.
        """
        for name in history.names:
            if name in self.names:
                raise MetadataError(f"the column {name!r} of the history is defined twice")
        moment_type = METADATA[history.sequence].data_type.as_nullable()
        return replace(
            self,
            metadata={**self.metadata, history.valid_from: history.sequence},
            writer_columns={
                history.valid_to: moment_type,
                history.is_current: DataType(root=TypeRoot.BOOLEAN).not_null(),
            },
        )

    @property
    def names(self) -> frozenset[str]:
        """The names of the made columns."""
        computed_names = (definition.name for definition in self.definitions)
        return frozenset((*computed_names, *self.metadata, *self.writer_columns))

    @property
    def is_repeatable(self) -> bool:
        """Whether a message gives the same values at each decoding."""
        return all(function_of(definition).is_stable for definition in self.definitions)

    def origins_of(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the source columns that decide the values of some columns, each once."""
        definitions_by_name = {definition.name: definition for definition in self.definitions}
        origins: dict[str, None] = {}
        for name in names:
            column: str | None = name
            while column in definitions_by_name:
                column = referenced_column(definitions_by_name[column])
            if (
                column is not None
                and column not in self.metadata
                and column not in self.writer_columns
            ):
                origins[column] = None
        return tuple(origins)

    def is_stable(self, name: str) -> bool:
        """Return whether a column keeps its value as long as its origins do."""
        definitions_by_name = {definition.name: definition for definition in self.definitions}
        column: str | None = name
        while column in definitions_by_name:
            if not function_of(definitions_by_name[column]).is_stable:
                return False
            column = referenced_column(definitions_by_name[column])
        key = None if column is None else self.metadata.get(column)
        return column not in self.writer_columns and (key is None or METADATA[key].is_stable)

    def is_shared(self, name: str, primary_keys: Collection[str]) -> bool:
        """Return whether all changes of a row give a made column the same value."""
        return self.is_stable(name) and set(primary_keys).issuperset(self.origins_of([name]))

    def columns(self, table_columns: RowType, arrow_type_of: ArrowTypeOf) -> RowType:
        """Return the given columns of the table, followed by the made columns that are missing.

        Raises:
            DefinitionError: a function does not accept its column, or the column's type is not what
                it makes.
        """
        types = {column.name: column.data_type for column in table_columns}

        def make(name: str, result_type: DataType) -> None:
            column_type = types.setdefault(name, result_type)
            if not _can_store(column_type, result_type):
                raise DefinitionError(
                    f"makes values of type {result_type.as_nullable()}, and the column {name!r} is "
                    f"{column_type.as_nullable()}"
                )

        for name, key in self.metadata.items():
            make(name, METADATA[key].data_type)
        for definition in self.definitions:
            try:
                argument_type = self._argument(definition, types)
                make(
                    definition.name,
                    applied_function(definition, argument_type, arrow_type_of).result_type,
                )
            except DefinitionError as error:
                raise DefinitionError(f"{definition.name}={definition.call} {error}") from None
        for name, data_type in self.writer_columns.items():
            try:
                make(name, data_type)
            except DefinitionError as error:
                raise DefinitionError(f"the history {error}") from None
        computed_names = (definition.name for definition in self.definitions)
        names = dict.fromkeys((*computed_names, *self.metadata, *self.writer_columns))
        new_names = [name for name in names if name not in table_columns.names]
        new_columns = (
            DataField(field_id=field_id, name=name, data_type=types[name])
            for field_id, name in enumerate(new_names, table_columns.highest_id + 1)
        )
        return RowType((*table_columns, *new_columns))

    def _argument(self, definition: Definition, types: Mapping[str, DataType]) -> DataType:
        reference = referenced_column(definition)
        if reference is None:
            return STRING
        if reference not in types:
            suggestion = did_you_mean(reference, types)
            raise DefinitionError(f"takes {reference!r}, which is not a column{suggestion}")
        return types[reference]


def referenced_column(definition: Definition) -> str | None:
    """Return the column that a definition's function reads, or None if it reads none."""
    return definition.arguments[0] if function_of(definition).reads_column else None


def made_columns_of(
    computed_columns: Iterable[str], metadata: Iterable[str], prefix: str
) -> MadeColumns:
    """Parse the configuration's definitions into the made columns.

    Raises:
        MetadataError: the metadata's name is unknown.
        DefinitionError: the first thing that is wrong with a text; columns' types are not judged.
    """
    definitions = [_definition(text) for text in computed_columns]
    keys = list(metadata)
    for key in keys:
        _check_metadata(key)
    names = [*(definition.name for definition in definitions), *(prefix + key for key in keys)]
    for name in names:
        if names.count(name) > 1:
            is_metadata = name in (prefix + key for key in keys)
            error = MetadataError if is_metadata else DefinitionError
            raise error(f"the column {name!r} is defined twice")
    definitions_by_name = {definition.name: definition for definition in definitions}
    order = sort_definitions(
        [(definition.name, referenced_column(definition)) for definition in definitions]
    )
    return MadeColumns(
        definitions=tuple(definitions_by_name[name] for name in order),
        metadata={prefix + key: key for key in keys},
    )


def argument_problem(definition: Definition, arrow_type_of: ArrowTypeOf) -> str:
    """Return the problem that a definition has with each type of its column; empty without one."""
    problems: Counter[str] = Counter()
    for argument_type in _SAMPLE_TYPES:
        try:
            applied_function(definition, argument_type, arrow_type_of)
            return ""
        except DefinitionError as error:
            problems[str(error)] += 1
    [(commonest_problem, _)] = problems.most_common(1)  # the others say that a type is not taken
    return f"'{definition.name}={definition.call}' {commonest_problem}"


def key_problems(made_columns: MadeColumns, primary_keys: tuple[str, ...]) -> Iterator[str]:
    """Yield problems of a primary key with made columns, whose rows could not be found again."""
    for name in primary_keys:
        if name in made_columns.names and not made_columns.is_stable(name):
            yield (
                f"primary-keys names {name!r}, whose value differs from one change of a row to "
                "the next: an update would not find its row"
            )
    if not made_columns.origins_of(primary_keys):
        yield "primary-keys must have a column of the source, or one that is computed from one"


def _definition(text: str) -> Definition:
    try:
        definition = parse_definition(text)
        function_of(definition)
    except DefinitionError as error:
        raise DefinitionError(f"{text!r} {error}") from None
    return definition


def _check_metadata(key: str) -> None:
    if key not in METADATA:
        raise MetadataError(f"unknown metadata {key!r}; {known_names_text(key, METADATA)}")


def _can_store(column_type: DataType, result_type: DataType) -> bool:
    """Return whether a column of one type can store every value of the other type."""
    if {column_type.root, result_type.root} <= STRING_ROOTS:
        return True
    if {column_type.root, result_type.root} <= INTEGER_ROOTS:
        return _WIDTHS[column_type.root] >= _WIDTHS[result_type.root]
    if {column_type.root, result_type.root} <= TIMESTAMP_ROOTS:
        return column_type.precision >= result_type.precision
    return column_type.as_nullable() == result_type.as_nullable()
