"""Captured messages under each of PostgreSQL's replica identities."""

from __future__ import annotations

FILE = "debezium_pg_identity"
COLUMNS = (
    "id BIGINT, customer STRING, amount DECIMAL(12,2), updated_at TIMESTAMP(6), dt STRING NOT NULL"
)
AT_THE_END = {2: ("Alan", "20.00", "2026-01-03"), 30: ("Grace", "30.25", "2026-01-02")}
