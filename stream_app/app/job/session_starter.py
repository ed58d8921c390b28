"""Starts Spark's session of a job, and opens the job's folders.

`ingest_job` calls it, and `submit.ingest_main` for the folder that the web page reads. Opening a
folder that only Spark can access starts the session, which the job then uses.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from stream_app.app.opening.job_folder_access import open_folder, spark_folder_settings
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.spark.driver.hadoop_files import HadoopFiles
from stream_app.spark.driver.session import start_session


@dataclass(frozen=True, slots=True)
class SessionStarter:
    """A starter of a job's Spark session, which also opens the job's folders.

    Attributes:
        job: the job's name.
        checkpoint_location: where the job's state is, which Spark must also be able to access.
        file_system: options of file systems, such as ``s3.endpoint``.
        spark_settings: Spark's settings, which override those derived from the other attributes.
    """

    job: str
    checkpoint_location: str
    file_system: Mapping[str, str] = field(repr=False)
    spark_settings: Mapping[str, str] = field(repr=False)

    def start(self) -> SparkSession:
        """Start the Spark session of this process, and return it."""
        folder_settings = spark_folder_settings(
            self.checkpoint_location, self.file_system, os.environ
        )
        return start_session(f"stream_app {self.job}", {**folder_settings, **self.spark_settings})

    def open_folder(self, location: str) -> JobFolder:
        """Open a folder of the job; start the session if only Spark can access the folder."""
        return open_folder(location, self.file_system, lambda: HadoopFiles(self.start()))
