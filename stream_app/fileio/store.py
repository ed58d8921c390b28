"""The port of a store, which describes how one kind of file system differs from others.

`local.local_store`, `s3.s3_store` and `hdfs.hdfs_store` each declare one. `store_registry` lists
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from stream_app.fileio.file_io import FileIO


class OptionSource(Protocol):
    """A source of options that change, such as a login that expires; can be pickled."""

    @property
    def age_max_s(self) -> float:
        """The age at which the options are renewed."""
        ...

    def options(self) -> Mapping[str, str]:
        """Return the current options.

        Raises:
            StreamAppError: the source cannot provide them.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkAccess:
    """The way in which Spark accesses a store's files through Hadoop.

    Attributes:
        location_of: converts a location to Spark's form.
        settings_of: returns Spark's settings for a location, by the options of stores and the
            environment.
        jars: the name of the set of jars that Spark lacks; empty if Spark has all.
    """

    location_of: Callable[[str], str]
    settings_of: Callable[[str, Mapping[str, str], Mapping[str, str]], dict[str, str]]
    jars: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """One kind of file system.

    Attributes:
        schemes: the schemes of its locations, in lower case; a path has the empty one.
        location_forms: the forms of its locations, for messages: ``s3://BUCKET/PATH``.
        option_prefixes: the prefixes of its options, the usual one first.
        option_names: the preferred names of its options.
        open: returns the prefix of paths below a location, and the file system. The source renews
            options whose values expire.
        check_options: raises a UsageError for a wrong option of a location.
        is_same: returns whether two locations, in any spelling, are the same place.
        path_beside: returns the path of another location in a location's file system; None if the
            other location is on another file system.
        needs_lock: whether a commit to a catalog's table takes the catalog's lock by default.
        advice: what to do if the store fails.
    """

    schemes: tuple[str, ...]
    location_forms: tuple[str, ...]
    option_prefixes: tuple[str, ...] = ()
    option_names: tuple[str, ...] = ()
    open: Callable[[str, Mapping[str, str], OptionSource | None], tuple[str, FileIO]]
    check_options: Callable[[Mapping[str, str], str], object] = lambda _options, _location: None
    is_same: Callable[[str, str], bool]
    path_beside: Callable[[str, str], str | None]
    spark: SparkAccess
    needs_lock: bool = False
    advice: str = ""
