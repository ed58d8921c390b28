"""Every store of the registry is complete, and no scheme has two of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stream_app.app.launch.jar_sets import HADOOP_SETS
from stream_app.errors import UsageError
from stream_app.fileio.local.local_store import LOCAL
from stream_app.fileio.store import Store
from stream_app.fileio.store_registry import (
    STORE_LOCATIONS,
    STORES,
    file_io_of,
    store_of,
)
from tests.support.files.memory_file_io import MemoryFileIO


@pytest.mark.parametrize("store", STORES, ids=lambda store: store.schemes[-1])
def test_a_store_is_complete(store: Store) -> None:
    for scheme in store.schemes:
        location = {"": "/folder", "file": "file:///folder"}.get(scheme, f"{scheme}://host/folder")
        assert store_of(location) is store
        assert store_of(location.upper()) is store
        # Spark's form is known here too: its checkpoint is looked into by both.
        assert store_of(store.spark.location_of(location)) is store
        assert store.is_same(location, f"{location}/")
    assert bool(store.option_prefixes) == bool(store.advice) == ("file" not in store.schemes)
    assert all(name.startswith(store.option_prefixes) for name in store.option_names)
    assert not store.spark.jars or store.spark.jars in HADOOP_SETS
    assert store.location_forms
    for form in store.location_forms:
        assert form in STORE_LOCATIONS
        assert "://" not in form or store_of(form) is store


def test_no_scheme_has_two_stores() -> None:
    schemes = [scheme for store in STORES for scheme in store.schemes]
    assert len(schemes) == len(set(schemes))


def test_a_line_among_the_stores_opens_a_scheme_that_was_foreign() -> None:
    location = "gs://bucket/warehouse"
    with pytest.raises(UsageError, match="whose protocol stream_app does not speak"):
        file_io_of(location)
    files = MemoryFileIO()
    store = replace(
        LOCAL, schemes=("gs",), open=lambda location, _options, _source: (location, files)
    )
    stores = (*STORES, store)
    assert store_of(location, stores) is store
    assert file_io_of(location, stores=stores) == (location, files)
    with pytest.raises(UsageError, match="Azure Storage"):
        file_io_of("abfs://bucket/warehouse", stores=stores)
