"""Declares the store HDFS, with or without a ViewFs mount."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from stream_app.fileio.hdfs.hdfs_file_io import (
    HDFS_OPTION_PREFIX,
    HdfsFileIO,
    hadoop_settings,
    hdfs_file_io,
)
from stream_app.fileio.store import OptionSource, SparkAccess, Store


def _open(
    location: str, options: Mapping[str, str], _source: OptionSource | None
) -> tuple[str, HdfsFileIO]:
    path = location.rstrip("/")
    return path, hdfs_file_io(path, options)


def _is_same(location: str, other: str) -> bool:
    url, other_url = urlsplit(location), urlsplit(other)
    host, other_host = (parts.netloc.removesuffix(":8020") for parts in (url, other_url))
    # hdfs:///path is on the cluster's own NameNode, whichever that is.
    is_same_host = host == other_host or not (host and other_host)
    path, other_path = (re.sub("/+$", "", parts.path) for parts in (url, other_url))
    return is_same_host and (url.scheme, path) == (other_url.scheme, other_path)


def _path_beside(root: str, location: str) -> str | None:
    return location if location.split("/")[:3] == root.split("/")[:3] else None


def _spark_settings(
    _location: str, options: Mapping[str, str], _environ: Mapping[str, str]
) -> dict[str, str]:
    return {f"spark.hadoop.{key}": value for key, value in hadoop_settings(options).items()}


HDFS = Store(
    schemes=("hdfs", "viewfs"),
    location_forms=("hdfs://HOST/PATH", "viewfs://CLUSTER/PATH"),
    option_prefixes=(HDFS_OPTION_PREFIX,),
    option_names=(f"{HDFS_OPTION_PREFIX}…",),
    open=_open,
    is_same=_is_same,
    path_beside=_path_beside,
    spark=SparkAccess(location_of=lambda location: location, settings_of=_spark_settings),
    advice=(
        "check that the NameNode runs, has left safe mode, can be reached from here "
        "(HADOOP_CONF_DIR, or host and port in the location) and lets this user write there; then "
        "start again, and the job continues where it was"
    ),
)
