"""Two spellings of one location are the same place."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.errors import UnsupportedTableError, UsageError
from stream_app.fileio.store_registry import is_same_location, path_beside


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, reached by a link as well, from the folder in which we are."""
    folder = tmp_path / "a warehouse" / "shop.db" / "t"
    folder.mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a warehouse")
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.mark.parametrize(
    "written",
    ["{0}", "{0}/", "file:{0}", "file://{0}", "a warehouse/shop.db/t", "./a warehouse/shop.db//t/",
     "a warehouse/../a warehouse/shop.db/t", "link/shop.db/t"],
)  # fmt: skip
def test_spellings_of_a_local_folder_are_the_same_location(table: Path, written: str) -> None:
    assert is_same_location(written.format(table), str(table))
    assert is_same_location(str(table), written.format(table))
    assert not is_same_location(written.format(table), f"{table}2")


@pytest.mark.parametrize(
    ("location", "other", "same"),
    [
        ("s3://lake/shop.db/t", "s3a://lake/shop.db/t/", True),
        ("s3n://lake/shop.db/t", "s3://lake/shop.db/t", True),
        ("s3://lake/shop.db/t", "s3://lake2/shop.db/t", False),
        ("s3://lake/shop.db/t", "s3://lake/shop.db/u", False),
        ("s3://lake/shop.db/t", "/lake/shop.db/t", False),
        ("s3://lake/shop.db/t", "hdfs://lake/shop.db/t", False),
        ("hdfs://nn:8020/shop.db/t", "hdfs://nn/shop.db/t/", True),
        ("hdfs:///shop.db/t", "hdfs://nn/shop.db/t", True),
        ("hdfs://nn/shop.db/t", "hdfs://nn2/shop.db/t", False),
        ("hdfs:///shop.db/t", "hdfs://nn/shop.db/u", False),
    ],
)
def test_each_store_compares_its_locations(location: str, other: str, *, same: bool) -> None:
    assert is_same_location(location, other) is same
    assert is_same_location(other, location) is same


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(UsageError, match="file system that stream_app does not support"):
        is_same_location("ftp://host/t", "/t")


@pytest.mark.parametrize(
    ("root", "location", "path"),
    [
        ("/t", "file:/e/dt=a%2Fb/f?#.parquet", "/e/dt=a%2Fb/f?#.parquet"),
        ("/t", "file:///e/f", "/e/f"),
        ("/t", "/e/f", "/e/f"),
        ("s3://b/t", "s3a://c/e:1/f", "s3a://c/e:1/f"),
        ("hdfs://h:1/t", "hdfs://h:1/e/f", "hdfs://h:1/e/f"),
        ("hdfs://h:1/t", "hdfs://other/e/f", None),
        ("/t", "s3://b/f", None),
        ("s3://b/t", "file:/e/f", None),
        ("/t", "file://host/e", None),
    ],
)
def test_a_file_elsewhere_is_found_on_the_same_file_system_alone(
    root: str, location: str, path: str | None
) -> None:
    if path is None:
        with pytest.raises(UnsupportedTableError, match=location):
            path_beside(root, location)
    else:
        assert path_beside(root, location) == path
