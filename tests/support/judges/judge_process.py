"""A judge as a child process: requests and answers are JSON, rows travel in files of Arrow.

A module of a judge has a `JudgeProcess`, the caller's side. Started as a program, it calls `serve`.
The child may run in another virtual environment, so this module needs nothing but PyArrow.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa

from tests.support.judges.line_server import LineServer

REPO = Path(__file__).resolve().parents[3]
Answering = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class JudgeProcess:
    """A child process that runs the module of the class; close it, or use it in `with`."""

    error: ClassVar[type[Exception]]
    """What is raised with the child's words when a request fails."""

    def __init__(self, python: Path | str, *arguments: str) -> None:
        module = type(self).__module__
        self._directory = tempfile.TemporaryDirectory(prefix=f"{module.rpartition('.')[2]}-")
        self._folder = Path(self._directory.name)
        self._server = LineServer(
            [str(python), "-m", module, *arguments],
            cwd=self._folder, env={**os.environ, "PYTHONPATH": str(REPO)},
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the child, and remove its files."""
        self._server.close()
        self._directory.cleanup()

    def _call(self, request: Mapping[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = self._server.call(request)
        if "error" in answer:
            raise self.error(answer["error"])
        return answer

    def _rows(self, request: Mapping[str, Any]) -> pa.Table:
        """Return the rows that the child writes to the file ``out`` of its request."""
        out = str(self._folder / "rows.arrow")
        self._call({**request, "out": out})
        return read_rows(out)


def read_rows(path: Path | str) -> pa.Table:
    """Return the rows of a file of Arrow."""
    with pa.OSFile(str(path)) as source, pa.ipc.open_file(source) as reader:
        return reader.read_all()


def write_rows(rows: pa.Table, path: Path | str) -> None:
    """Make a file of Arrow."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)


def trace_of(error: BaseException) -> str:
    """Return the end of an error's traceback."""
    return "".join(traceback.format_exception(error))[-4000:]


def serve(
    start: Callable[[], Answering], words_of: Callable[[BaseException], str] = trace_of
) -> None:
    """Answer each line of stdin until it ends, in the child.

    Args:
        start: starts the judge; returns what answers a request.
        words_of: what the caller gets of an error.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints must not end up among the answers

    def send(answer: Mapping[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    answering = start()
    send({"ready": True})
    for line in sys.stdin:
        try:
            send(answering(json.loads(line)))
        except BaseException as error:  # a panic of polars is not an Exception
            send({"error": words_of(error)})
