"""Joins the two kinds of `JobTables` in one type, for code that distinguishes them."""

from __future__ import annotations

from stream_app.app.config.job_tables.single_table import SingleTable
from stream_app.app.config.job_tables.whole_database import WholeDatabase

SingleTableOrDatabase = SingleTable | WholeDatabase
"""The tables of a job: one table, or those of a whole database."""
