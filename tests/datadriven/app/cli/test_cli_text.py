"""Runs commands of the command line, and compares their whole output, errors and exit codes."""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import re
import shlex
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from stream_app import __version__
from stream_app.app.cli.main import main
from stream_app.table.opening import open_file_store_table
from tests.support.files.plain_object import plain_object
from tests.support.suite.datadriven import Case, files, run_file
from tests.support.tables.small_table import TIME_MS, SmallTable, small_table

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
CHOICES = re.compile(r"\(choose from .*\)")
SIZE = re.compile(
    r"\d+(\.\d)? (B|KiB)\b|(?<=\"bytes\":)\d+|(?<=\"bytes_in\":)\d+|(?<=\"bytes_out\":)\d+"
)


def orders(path: str) -> None:
    """Two days of a shop, in five commits, of which one is compacted; the first has a tag."""
    table = small_table(
        path,
        "dt STRING, id BIGINT, customer STRING, amount DECIMAL(12,2), updated_at TIMESTAMP(3)",
        ("dt", "id"), ("dt",), bucket=1, changelog_producer="input",
        num_sorted_run__compaction_trigger=3,
    )  # fmt: skip
    table.commit(order("+I", 1, "Ada", "9.99"), order("+I", 2, "Zoë", "100.00"))
    table.commit(order("+I", 3, None, None), order("+I", 4, "Ken", "0.01", day=2))
    table.commit(order("-U", 1, "Ada", "9.99"), order("+U", 1, "Ada", "12.50"))
    table.compact()
    table.commit(order("-D", 2, "Zoë", "100.00"))
    tag = Path(path) / "tag" / "tag-opening"
    tag.parent.mkdir()
    snapshot = plain_object((Path(path) / "snapshot" / "snapshot-1").read_bytes())
    more = {"tagCreateTime": [2026, 1, 1, 12, 30], "tagTimeRetained": 86400.0}
    tag.write_text(json.dumps({**snapshot, **more}))


def followed(path: str) -> None:
    """The same shop; a consumer has taken the first two commits."""
    orders(path)
    open_file_store_table(path).consumers.reset("search", 3)
    os.utime(Path(path) / "consumer" / "consumer-search", (TIME_MS / 1000, TIME_MS / 1000))


def damaged(path: str) -> None:
    """The same shop, with one more tag, whose file is cut off; its first snapshots have expired."""
    orders(path)
    tag = Path(path) / "tag" / "tag-cut"
    tag.write_bytes((Path(path) / "tag" / "tag-opening").read_bytes()[:40])
    for number in (1, 2):
        (Path(path) / "snapshot" / f"snapshot-{number}").unlink()


def order(kind: str, number: int, customer: Any, amount: Any, day: int = 1) -> tuple[str, Any]:
    time = dt.datetime(2026, 1, day, 12, 0, number)  # noqa: DTZ001
    value = None if amount is None else Decimal(amount)
    return kind, {
        "dt": f"2026-01-0{day}", "id": number, "customer": customer, "amount": value,
        "updated_at": time,
    }  # fmt: skip


def values(path: str) -> None:
    """Return one row for each trap of a text form."""
    table: SmallTable = small_table(
        path,
        "k INT, s STRING, b BYTES, d DECIMAL(38,10), f FLOAT, g DOUBLE, ok BOOLEAN, day DATE, "
        "t TIME(3), ltz TIMESTAMP_LTZ(6), ns TIMESTAMP(9)",
        ("k",),
    )
    day, time = dt.date(1969, 12, 31), dt.time(1, 2, 3, 4000)
    ltz = dt.datetime(2026, 1, 1, 12, 0, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    big = Decimal("1234567890123456789012345678.0123456789")
    rows: list[tuple[Any, ...]] = [
        (1, "plain", b"\x00\xff", big, 0.1, 0.1, True, day, time, ltz, 1),
        (2, "", b"", Decimal("1E-10"), float("nan"), float("-inf"), False, day, time, ltz, -1),
        (
            3,
            "a\nb\t\"q\" \\ 'x' \x1b[31m,;",
            None,
            Decimal(0),
            -0.0,
            1e300,
            None,
            None,
            None,
            None,
            0,
        ),
        (4, "NULL", None, None, None, None, None, None, None, None, None),
        (5, None, b"", Decimal("-0.5"), 1.0, 5e-324, True, day, time, ltz, 10**18),
        (6, "東京 " + "long " * 20, None, None, 3.4e38, float("inf"), None, None, None, None, None),
    ]
    names = table.table.schema.fields.names
    table.commit(*(("+I", dict(zip(names, row, strict=True))) for row in rows))


def empty(path: str) -> None:
    small_table(path, "k INT, v STRING", ("k",))


MAKERS = {
    "orders": orders,
    "followed": followed,
    "damaged": damaged,
    "values": values,
    "empty": empty,
}


@pytest.mark.parametrize("path", files(Path(__file__).parent), ids=lambda path: path.stem)
def test_commands_print_these_texts_and_exit_codes(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path.stem == "help" and sys.version_info >= (3, 13):
        pytest.skip("argparse lays help out in another way")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "UTC")  # Paimon keeps the local time at which a file was made
    time.tzset()
    monkeypatch.setenv("COLUMNS", "100")  # argparse and rich ask for the terminal's width
    for name, make in MAKERS.items():
        make(f"{tmp_path}/shop.db/{name}")

    def handle(case: Case) -> str:
        return "\n".join(_command(line, tmp_path) for line in case.input_lines)

    run_file(path, handle)


def _command(line: str, folder: Path) -> str:
    out, errors = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", errors)
        code = main(shlex.split(line))
        out.flush()
    buffer = out.buffer
    assert isinstance(buffer, io.BytesIO)
    text = buffer.getvalue().decode() + errors.getvalue()
    if code:
        text += f"exit code {code}\n"
    text = text.replace(str(folder) + os.sep, "")
    text = text.replace(f"stream_app-{__version__}", "stream_app-VERSION")
    text = CHOICES.sub(lambda match: match[0].replace("'", ""), text)  # Python 3.12 quotes none
    text = re.sub("█+", "█", text)
    return f"$ {line}\n{SIZE.sub('SIZE', UUID.sub('UUID', text))}"
