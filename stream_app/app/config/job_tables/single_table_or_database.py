"""The tables of a job as a union: those of section ``[table]``, or those of ``[sync]``.

Code that distinguishes the two kinds of job takes this type. Other code takes `JobTables`.
"""

from __future__ import annotations

from stream_app.app.config.job_tables.single_table import SingleTable
from stream_app.app.config.job_tables.whole_database import WholeDatabase

SingleTableOrDatabase = SingleTable | WholeDatabase
"""One table, or the tables of a whole database."""
