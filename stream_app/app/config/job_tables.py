"""The tables of a job of either kind, for code that distinguishes them."""

from __future__ import annotations

from stream_app.app.config.single_table import SingleTable
from stream_app.app.config.whole_database import WholeDatabase

JobTables = SingleTable | WholeDatabase
"""The tables of a job, of either kind."""
