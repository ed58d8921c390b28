"""The port to a schema registry, which is asked over the network: `kafka.schema_registry`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

URL = "schema.registry.url"
USER_INFO = "schema.registry.basic.auth.user.info"
NO_AVRO = "is not Avro of a registry: it does not begin with 0 and the number of a schema"


class Schemas(Protocol):
    """Schemas by their number. Can be pickled."""

    def schema(self, number: int) -> str:
        """The JSON text of a schema of Avro.

        Args:
            number: -1: the message is not in the wire format.

        Raises:
            UnreadableRecordError: messages of this number cannot be read, whatever they hold.
            SourceError: no server answers.
            WrongSourceError: the login is refused.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Registries:
    """The way to reach registries.

    Attributes:
        at: the schemas of a registry, by the addresses of its servers and the login.
        url_problem: what is wrong with an address; empty: nothing.
    """

    at: Callable[[tuple[str, ...], str], Schemas]
    url_problem: Callable[[str], str]
