"""The port to a schema registry, which is asked over the network: `kafka.schema_registry`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from stream_app.cdc.bad_reasons import UnreadableRecordError

URL = "schema.registry.url"
USER_INFO = "schema.registry.basic.auth.user.info"
HEADERS = "schema.id.headers"
USE_ID = "apicurio.registry.use-id"
ID_HANDLER = "apicurio.registry.id-handler"
NO_HEAD = "is not of a registry: it does not begin with 0 and the number of a schema"
"""The reason of a bad record that does not name its schema."""


class HeaderKind(Enum):
    """The serializers that name a schema in headers; the values are those of the option."""

    NONE = "none"
    CONFLUENT = "confluent"
    APICURIO = "apicurio"


@dataclass(frozen=True, slots=True)
class SchemaHeaders:
    """The headers of Kafka that name a message's schema.

    A message is read as if the header preceded it.

    Attributes:
        key, value: the header of the message's key, and of its value.
        magic: bytes that precede the header's own.
    """

    key: str
    value: str
    magic: bytes = b""


class IdKind(Enum):
    """The kinds of schema numbers in messages; the values are those of the option."""

    AUTO = "auto"
    GLOBAL = "globalId"
    CONTENT = "contentId"


class SchemaKind(Enum):
    """The language of a schema; the values are those of registries."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema of a registry.

    Attributes:
        schema_number: its number in the registry.
        schema_type: a value of `SchemaKind`, or another word of the registry; empty if the registry
            names no type.
        text: its text.
        references: the name and the text of each schema to which it refers. A schema follows
            those to which it refers itself.
    """

    schema_number: int
    schema_type: str
    text: str
    references: tuple[tuple[str, str], ...] = ()

    def check(self, schema_kind: SchemaKind) -> None:
        """Check that the schema is in this language.

        Raises:
            UnreadableRecordError: the schema is in another language.
        """
        if self.schema_type not in ("", schema_kind.value):
            raise UnreadableRecordError(
                f"names schema {self.schema_number}, which is of type {self.schema_type}, "
                f"not {schema_kind.value}"
            )


class Schemas(Protocol):
    """Schemas by their number. Can be pickled."""

    def schema_number_of(self, guid: bytes) -> int:
        """Return the number of the schema with a GUID of 16 bytes.

        Raises:
            UnreadableRecordError: the registry has no schema with this GUID.
            SourceError: no server answers.
            WrongSourceError: the login is refused.
        """
        ...

    def schema(self, schema_number: int) -> RegisteredSchema:
        """Return the schema of a number.

        Args:
            schema_number: -1 stands for messages that are not in the wire format.

        Raises:
            UnreadableRecordError: messages with this number cannot be read, whatever they contain.
            SourceError: no server answers.
            WrongSourceError: the login is refused.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Registries:
    """The access to registries.

    Attributes:
        schemas_at: opens the schemas of a registry. It takes the addresses of its servers, the
            login, the section of their options, and what Apicurio's numbers count.
        url_problem: returns what is wrong with an address; empty if nothing is.
    """

    schemas_at: Callable[[tuple[str, ...], str, str, IdKind], Schemas]
    url_problem: Callable[[str], str]
