"""Starts Spark's session of a job, and opens the job's folders.

Called by `ingest_job`, and by the program for the folder of the page. A folder that only Spark
reaches starts the session, which the job then uses.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from stream_app.app.tables.job_folders import hadoop_settings, open_folder
from stream_app.spark.hadoop_files import HadoopFiles
from stream_app.spark.job_folder import Folder
from stream_app.spark.session import start_session


@dataclass(frozen=True, slots=True)
class JobSession:
    """The settings with which a job's Spark session is started.

    Attributes:
        job: the job's name.
        checkpoint: the location of the job's state, which Spark reaches too.
        file_system: options of file systems, such as ``s3.endpoint``.
        settings: Spark's settings; they win over those that follow from the others.
    """

    job: str
    checkpoint: str
    file_system: Mapping[str, str] = field(repr=False)
    settings: Mapping[str, str] = field(repr=False)

    def start(self) -> SparkSession:
        """The Spark session of this process."""
        of_checkpoint = hadoop_settings(self.checkpoint, self.file_system, os.environ)
        return start_session(f"stream_app {self.job}", {**of_checkpoint, **self.settings})

    def folder(self, location: str) -> Folder:
        """A folder of the job; starts the session if only Spark reaches the folder."""
        return open_folder(location, self.file_system, lambda: HadoopFiles(self.start()))
