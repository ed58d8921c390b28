"""Captured messages of databases: their files and the columns of their tables."""

from __future__ import annotations

import datetime as dt

CUSTOMERS = (
    "id INT, name STRING NOT NULL, email STRING, tier SMALLINT, balance DECIMAL(12,2), "
    "joined DATE, updated_at TIMESTAMP(6), note STRING"
)
DEFAULT_IDENTITY = {"replica-identity": "default"}
FLAT = {"decimal.handling.mode": "double", "time.precision.mode": "connect"}
LEAP = dt.datetime(2024, 2, 29, 23, 59, 59, 123456)  # noqa: DTZ001 - a TIMESTAMP has no zone
ORDERS = (
    "order_id BIGINT, line INT, sku STRING, qty INT, price DECIMAL(10,4), placed TIMESTAMP_LTZ(6)"
)
MARIA_CUSTOMERS = (
    "id INT, name STRING NOT NULL, email STRING, tier SMALLINT, balance DECIMAL(12,2), "
    "joined DATE, updated_at TIMESTAMP(6), seen TIMESTAMP_LTZ(3), note STRING, phone STRING, "
    "score DOUBLE, level SMALLINT"
)
ALL_TYPES = (
    "id BIGINT, c_bool BOOLEAN, c_int2 SMALLINT, c_int8 BIGINT, c_real FLOAT, c_double DOUBLE, "
    "c_dec DECIMAL(38,10), c_money DECIMAL(12,2), c_char CHAR(5), c_varchar VARCHAR(20), "
    "c_text STRING, c_bytea BYTES, c_time TIME(3), c_timetz TIME(0), c_ts3 TIMESTAMP(3), "
    "c_interval BIGINT, c_uuid STRING, c_json STRING, c_jsonb STRING, c_enum STRING, "
    "c_bit BOOLEAN, c_bits BYTES, c_ints STRING, c_texts STRING, c_inet STRING, c_xml STRING, "
    "c_range STRING"
)
MARIA_TYPES = (
    "id BIGINT, c_bool BOOLEAN, c_tiny TINYINT, c_medium INT, c_ubig BIGINT, c_float FLOAT, "
    "c_double DOUBLE, c_dec DECIMAL(38,10), c_bit1 BOOLEAN, c_bit BYTES, c_char CHAR(5), "
    "c_text STRING, c_bin BINARY(4), c_blob BYTES, c_date DATE, c_time BIGINT, "
    "c_dt TIMESTAMP(0), c_dt6 TIMESTAMP(6), c_ts TIMESTAMP_LTZ(0), c_year INT, c_enum STRING, "
    "c_set STRING, c_json STRING, c_latin STRING"
)
