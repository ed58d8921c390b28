"""PyPaimon as a second judge of tables, in its own virtual environment: it pins an older pyarrow.

The environment is made once in .venvs/pypaimon from conf/requirements-pypaimon.lock. This file is
the caller's side and, started by that environment's Python, the child that reads.

PyPaimon forgives more than Paimon's Java does: a table is right only when both read it. It has no
MULTISET and no 64-bit deletion vectors, and where it has to merge files it cuts TIMESTAMP(7..9) to
microseconds (compare by normal_rows.without_nanoseconds).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.line_server import LineServer

REPO = Path(__file__).resolve().parents[2]
LOCK_LIST = REPO / "conf" / "requirements-pypaimon.lock"
ENVIRONMENT = REPO / ".venvs" / "pypaimon"


class PyPaimonError(Exception):
    """What PyPaimon raised, with the end of its traceback."""


class PyPaimonReader:
    """Starts a child at once; close it (or use it in `with`)."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="pypaimon-")
        self._server = LineServer(
            [str(python()), "-m", "tests.support.pypaimon_reader"],
            cwd=REPO, env={**os.environ, "PYTHONPATH": str(REPO)},
        )  # fmt: skip

    def __enter__(self) -> PyPaimonReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._server.close()
        self._directory.cleanup()

    def read(
        self, path: Path | str, *, columns: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None, options: Mapping[str, Any] | None = None,
    ) -> pa.Table:  # fmt: skip
        """A batch read. `where` maps a column to the JSON value it equals (None: is null)."""
        out = Path(self._directory.name) / "rows.arrow"
        request = {
            "path": str(Path(path).resolve()), "out": str(out), "where": dict(where or {}),
            "columns": None if columns is None else list(columns),
            "options": {key: str(value) for key, value in (options or {}).items()},
        }  # fmt: skip
        answer = self._server.call(request)
        if "error" in answer:
            raise PyPaimonError(answer["error"])
        with pa.OSFile(str(out)) as source, pa.ipc.open_file(source) as reader:
            return reader.read_all()

    def write(
        self, path: Path | str, rows: pa.Table, *, primary_keys: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """A batch write and its commit; makes the table of the rows' columns when there is none."""
        given = Path(self._directory.name) / "given.arrow"
        with pa.OSFile(str(given), "wb") as out, pa.ipc.new_file(out, rows.schema) as writer:
            writer.write_table(rows)
        request = {
            "path": str(Path(path).resolve()), "given": str(given),
            "primary_keys": list(primary_keys),
            "options": {key: str(value) for key, value in (options or {}).items()},
        }  # fmt: skip
        answer = self._server.call(request)
        if "error" in answer:
            raise PyPaimonError(answer["error"])


def python() -> Path:
    """The environment's Python; makes the environment when missing or the lock list changed."""
    interpreter = ENVIRONMENT / "bin" / "python"
    stamp = ENVIRONMENT / "made-from"
    wanted = hashlib.sha256(LOCK_LIST.read_bytes() + sys.version.encode()).hexdigest()
    ENVIRONMENT.parent.mkdir(parents=True, exist_ok=True)
    with (ENVIRONMENT.parent / ".pypaimon.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may start at once
        if not stamp.exists() or stamp.read_text() != wanted:
            _make_environment(interpreter)
            stamp.write_text(wanted)
    return interpreter


def _make_environment(interpreter: Path) -> None:
    venv.create(ENVIRONMENT, clear=True, with_pip=True)
    command = [interpreter, "-m", "pip", "install", "--no-deps", "--quiet", "-r", LOCK_LIST]
    pip = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False
    )
    if pip.returncode != 0:
        raise RuntimeError(f"could not make {ENVIRONMENT} from {LOCK_LIST}:\n{pip.stderr[-2000:]}")


# ------------------------------------------------------- the child, inside that environment


def _serve() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints must not end up among the answers
    _answer(answers, {"ready": True})
    for line in sys.stdin:
        try:
            request = json.loads(line)
            _write(request) if "given" in request else _read(request)
            _answer(answers, {})
        except BaseException:  # a panic of polars is no Exception
            import traceback

            _answer(answers, {"error": traceback.format_exc()[-4000:]})


def _answer(answers: Any, answer: Mapping[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _read(request: Mapping[str, Any]) -> None:
    from pypaimon import CatalogFactory

    path = Path(request["path"])
    catalog = CatalogFactory.create({"warehouse": str(path.parents[1])})
    table = catalog.get_table(f"{path.parent.stem}.{path.name}")
    if request["options"]:
        table = table.copy(request["options"])
    builder = table.new_read_builder()
    if request["columns"] is not None:
        builder = builder.with_projection(request["columns"])
    if request["where"]:
        of_all_columns = table.new_read_builder().new_predicate_builder()
        builder = builder.with_filter(_predicate(of_all_columns, request["where"]))
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    with pa.OSFile(request["out"], "wb") as out, pa.ipc.new_file(out, rows.schema) as writer:
        writer.write_table(rows)


def _write(request: Mapping[str, Any]) -> None:
    from pypaimon import CatalogFactory, Schema

    path = Path(request["path"])
    name = f"{path.parent.stem}.{path.name}"
    catalog = CatalogFactory.create({"warehouse": str(path.parents[1])})
    with pa.OSFile(request["given"]) as source, pa.ipc.open_file(source) as reader:
        rows = reader.read_all()
    if not path.exists():
        catalog.create_database(path.parent.stem, True)
        schema = Schema.from_pyarrow_schema(
            rows.schema, primary_keys=request["primary_keys"], options=request["options"]
        )
        catalog.create_table(name, schema, False)
    builder = catalog.get_table(name).new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow(rows)
    commit.commit(write.prepare_commit())
    write.close()
    commit.close()


def _predicate(builder: Any, where: Mapping[str, Any]) -> Any:
    return builder.and_predicates(
        [
            builder.is_null(column) if value is None else builder.equal(column, value)
            for column, value in where.items()
        ]
    )


if __name__ == "__main__":
    _serve()
