"""Defines the tables of a job as a union of both cases, for code that distinguishes them."""

from stream_app.app.config.job_tables.single_table import SingleTable
from stream_app.app.config.job_tables.whole_database import WholeDatabase

SingleTableOrDatabase = SingleTable | WholeDatabase
"""One table (section ``[table]``), or those of a whole database (section ``[sync]``)."""
