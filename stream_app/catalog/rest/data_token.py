"""Fetches a REST catalog's expiring credentials for a table's files (`data-token.enabled`).

A token consists of options of a store. Tasks and driver renew its keys as they age. They read
the other options when they open the table.

Source: Paimon `rest/RESTTokenFileIO.java`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stream_app.catalog.identifier import Identifier
from stream_app.catalog.rest.rest_api import RestApi, table_path
from stream_app.errors import StorageError

_AGE_MAX_S = 300.0
"""The age at which a token is renewed. Tokens last for hours; Paimon renews them an hour early."""


@dataclass(frozen=True, slots=True)
class DataToken:
    """An `OptionSource` that asks the catalog; can be pickled, with the login."""

    api: RestApi
    identifier: Identifier

    @property
    def age_max_s(self) -> float:
        """See `OptionSource.age_max_s`."""
        return _AGE_MAX_S

    def options(self) -> Mapping[str, str]:
        """See `OptionSource.options`.

        Raises:
            StorageError: the catalog returns no token.
            NoAccessError: the catalog refuses this user.
        """
        response = self.api.get(*table_path(self.identifier, "token"))
        if not response.is_success:
            raise StorageError(
                f"the catalog gives no login for the files of {self.identifier}",
                where=response.where,
                fix="check that the table exists, or set data-token.enabled = false",
            )
        token = response.field("token", dict)
        return {str(key): str(value) for key, value in token.items()}
