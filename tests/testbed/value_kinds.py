"""The kinds of columns in the workload's tables: SQL types, random values, and their normal form.

A kind is the same idea in both databases. What a table of the warehouse must hold is the source's
own answer to a SELECT, brought to the form of tests/support/judges/normal_rows.py by `normal`.
"""

from __future__ import annotations

import datetime as dt
import json
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

from tests.support.judges.normal_rows import normal_value

_TEXTS = (
    "", " ", "plain", "it's", 'a "quoted" \\ back', "tab\tline\nend\r", "żółć", "日本語", "🚀 up",
    "null", "__debezium", "\x01\x7f", "{\"a\": [1, 2]}", "<xml/>", "%s %d", "0", "NaN",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of column.

    Attributes:
        postgres: its type there.
        mariadb: its type there.
        make: a random value, as a parameter of both drivers, or as
        for_postgres: makes one for PostgreSQL's of it.
        normal: of what a SELECT gives, never of None.
        postgres_select: how PostgreSQL is asked for it.
        mariadb_select: how MariaDB is asked for it.
        default: a literal for DEFAULT.
        from_postgres: the type in the warehouse, as Paimon spells it.
        from_mariadb: the same for MariaDB, where it is another.
    """

    postgres: str
    mariadb: str
    make: Callable[[Random], Any]
    from_postgres: str
    from_mariadb: str = ""
    for_postgres: Callable[[Any], Any] = lambda value: value
    normal: Callable[[Any], Any] = normal_value
    postgres_select: str = "{}"
    mariadb_select: str = "{}"
    default: str = "'0'"


def _integer(bits: int, *, is_signed: bool = True) -> Callable[[Random], int]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)

    def make(random: Random) -> int:
        return random.choice((low, high, 0, random.randint(low, high), random.randrange(100)))

    return make


def _decimal(digits: int, scale: int) -> Callable[[Random], Decimal]:
    def make(random: Random) -> Decimal:
        most = 10**digits - 1
        unscaled_value = random.choice(
            (0, most, -most, random.randint(-most, most), random.randrange(99))
        )
        # Not by scaleb, which rounds to the context's 28 digits.
        return Decimal((int(unscaled_value < 0), tuple(map(int, str(abs(unscaled_value)))), -scale))

    return make


def _text(letters: int) -> Callable[[Random], str]:
    def make(random: Random) -> str:
        text = random.choice(_TEXTS) + str(random.randrange(10**6))
        return text[-letters:].strip() if letters < 12 else text[:letters]

    return make


def _long_text(random: Random) -> str:
    """Incompressible and long, so that PostgreSQL keeps it out of the row (TOAST)."""
    return random.randbytes(random.choice((10, 2_000, 6_000))).hex()


def _date(random: Random) -> dt.date:
    return dt.date(1900, 1, 1) + dt.timedelta(days=random.randrange(73_000))


def _moment(fraction: int, *, first: int = 1900, years: int = 200) -> Callable[[Random], Any]:
    def make(random: Random) -> dt.datetime:
        seconds = random.randrange(years * 365 * 86_400)
        micros = random.randrange(10**fraction) * 10 ** (6 - fraction)
        start = dt.datetime(first, 1, 2)  # noqa: DTZ001 - of columns without a zone
        return start + dt.timedelta(seconds=seconds, microseconds=micros)

    return make


def _zoned(random: Random) -> dt.datetime:
    # MariaDB's TIMESTAMP ends in 2038.
    return _moment(6, first=1971, years=60)(random).replace(tzinfo=dt.UTC)


def _clock(random: Random) -> dt.time:
    hour, minute, second = random.randrange(24), random.randrange(60), random.randrange(60)
    return dt.time(hour, minute, second, random.randrange(10**6))


def _json(random: Random) -> str:
    value = {"n": random.randrange(100), "t": random.choice(_TEXTS[2:10]), "l": [1.5, None, True]}
    return json.dumps(value, ensure_ascii=random.random() < 0.5)


def _numbers(random: Random) -> str:
    return json.dumps([random.randrange(1000) for _ in range(random.randrange(4))])


def _real(value: float) -> Any:
    """FLOAT's nearest value, widened."""
    return normal_value(struct.unpack("f", struct.pack("f", value))[0])


def _time_of(value: dt.time | dt.timedelta) -> Any:
    """Microseconds since midnight. PyMySQL gives a TIME as such a time."""
    if isinstance(value, dt.time):
        clock = dt.datetime.combine(dt.date(2000, 1, 1), value)
        value = clock - dt.datetime(2000, 1, 1)  # noqa: DTZ001 - only its time is used
    return normal_value(value // dt.timedelta(microseconds=1))


def _bits(value: str | bytes) -> bytes:
    """PostgreSQL gives a text of zeros and ones."""
    if isinstance(value, bytes):
        return value
    return int(value, 2).to_bytes((len(value) + 7) // 8, "big")


def _decimal_kind(digits: int, scale: int) -> Kind:
    sql = f"numeric({digits}, {scale})"
    make = _decimal(digits, scale)
    return Kind(postgres=sql, mariadb=sql, make=make, from_postgres=f"DECIMAL({digits}, {scale})")


def _varchar(letters: int) -> Kind:
    sql = f"varchar({letters})"
    return Kind(postgres=sql, mariadb=sql, make=_text(letters), from_postgres=sql.upper())


STATES = ("new", "paid", "sent", "back")
KINDS: dict[str, Kind] = {
    "int8": Kind(
        postgres="smallint",
        mariadb="tinyint",
        make=_integer(8),
        from_postgres="SMALLINT",
        from_mariadb="TINYINT",
    ),
    "int16": Kind(
        postgres="smallint", mariadb="smallint", make=_integer(16), from_postgres="SMALLINT"
    ),
    "int32": Kind(postgres="integer", mariadb="int", make=_integer(32), from_postgres="INT"),
    "int64": Kind(postgres="bigint", mariadb="bigint", make=_integer(64), from_postgres="BIGINT"),
    "uint24": Kind(
        postgres="integer",
        mariadb="mediumint unsigned",
        make=_integer(24, is_signed=False),
        from_postgres="INT",
        from_mariadb="BIGINT",
    ),
    "uint32": Kind(
        postgres="bigint",
        mariadb="int unsigned",
        make=_integer(32, is_signed=False),
        from_postgres="BIGINT",
    ),
    "bool": Kind(
        postgres="boolean",
        mariadb="tinyint(1)",
        make=lambda r: r.random() < 0.5,
        from_postgres="BOOLEAN",
    ),
    "float": Kind(
        postgres="real",
        mariadb="float",
        # Few digits: a snapshot of MariaDB reads a FLOAT as text of six.
        make=lambda random: random.choice((0.5, -1.25, random.randrange(10**5) / 100)),
        normal=_real,
        mariadb_select="({} + 0e0)",
        from_postgres="FLOAT",
    ),
    "double": Kind(
        postgres="double precision",
        mariadb="double",
        make=lambda random: random.choice((0.1, -2.5e300, 5e-324, random.uniform(-1e6, 1e6))),
        from_postgres="DOUBLE",
    ),
    "decimal(10, 2)": _decimal_kind(10, 2),
    "decimal(14, 2)": _decimal_kind(14, 2),
    "decimal(18, 4)": _decimal_kind(18, 4),
    "decimal(38, 10)": _decimal_kind(38, 10),
    "char(8)": Kind(
        postgres="char(8)",
        mariadb="char(8)",
        make=lambda random: f"{random.randrange(10**8):08}",
        from_postgres="CHAR(8)",
    ),
    "varchar(40)": _varchar(40),
    "varchar(200)": _varchar(200),
    "text": Kind(postgres="text", mariadb="text", make=_text(200), from_postgres="STRING"),
    "long text": Kind(postgres="text", mariadb="longtext", make=_long_text, from_postgres="STRING"),
    "bytes": Kind(
        postgres="bytea",
        mariadb="varbinary(64)",
        make=lambda random: random.randbytes(random.randrange(64)),
        normal=bytes,
        from_postgres="BYTES",
        from_mariadb="VARBINARY(64)",
    ),
    "date": Kind(
        postgres="date",
        mariadb="date",
        make=_date,
        default="'2020-02-29'",
        from_postgres="DATE",
    ),
    "time": Kind(
        postgres="time(6)",
        mariadb="time(6)",
        make=_clock,
        normal=_time_of,
        from_postgres="BIGINT",
    ),
    "timestamp(3)": Kind(
        postgres="timestamp(3)",
        mariadb="datetime(3)",
        make=_moment(3),
        from_postgres="TIMESTAMP(3)",
    ),
    "timestamp(6)": Kind(
        postgres="timestamp(6)",
        mariadb="datetime(6)",
        make=_moment(6),
        from_postgres="TIMESTAMP(6)",
    ),
    "zoned": Kind(
        postgres="timestamptz(6)",
        mariadb="timestamp(6) null",
        make=_zoned,
        from_postgres="TIMESTAMP(6) WITH LOCAL TIME ZONE",
        from_mariadb="TIMESTAMP(6)",
    ),
    "uuid": Kind(
        postgres="uuid",
        mariadb="char(36)",
        make=lambda random: str(uuid.UUID(bytes=random.randbytes(16))),
        postgres_select="{}::text",
        from_postgres="STRING",
        from_mariadb="CHAR(36)",
    ),
    "json": Kind(
        postgres="json",
        mariadb="longtext",
        make=_json,
        postgres_select="{}::text",
        from_postgres="STRING",
    ),
    "jsonb": Kind(
        postgres="jsonb",
        mariadb="json",
        make=_json,
        postgres_select="{}::text",
        from_postgres="STRING",
    ),
    "state": Kind(
        postgres="state",
        mariadb="enum('new', 'paid', 'sent', 'back')",
        make=lambda random: random.choice(STATES),
        postgres_select="{}::text",
        default="'new'",
        from_postgres="STRING",
    ),
    "bits": Kind(
        postgres="bit(12)",
        mariadb="bit(12)",
        make=lambda random: random.randrange(1 << 12),
        for_postgres=lambda value: f"{value:012b}",
        normal=_bits,
        postgres_select="{}::text",
        from_postgres="BINARY(2)",
    ),
    "address": Kind(
        postgres="inet",
        mariadb="varchar(45)",
        make=lambda random: f"10.{random.randrange(256)}.{random.randrange(256)}.7",
        postgres_select="host({})",
        from_postgres="STRING",
        from_mariadb="VARCHAR(45)",
    ),
}

WIDER = {
    "int8": "int16", "int16": "int32", "int32": "int64", "float": "double",
    "decimal(10, 2)": "decimal(14, 2)", "varchar(40)": "varchar(200)",
}  # fmt: skip
"""What a column may become without losing a value."""
