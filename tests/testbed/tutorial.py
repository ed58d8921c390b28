"""Runs pages that begin with a Kafka or a PostgreSQL against the testbed, block by block."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from string import Template
from typing import Any

import psycopg

from stream_app.app.cli.main import main
from tests.support.jobs.ingest_server import IngestServer
from tests.support.pages.page_blocks import Block

LANGUAGES = frozenset({"sql", "bash", "toml", "python"})
CONF = "tutorial.toml"
MARKS = "done"
"""The testbed's own table, which a reader's database lacks."""
_SECONDS_MAX = 60.0
_FOLDERS = (
    ("sync", "warehouse"), ("table", "warehouse"),
    ("stream", "checkpoint"), ("stream", "quarantine"),
)  # fmt: skip


@dataclass
class Tutorial:
    """A reader of the page that does its steps in the current folder.

    Attributes:
        environ: the variables that the page asks for.
        wait_until_sent: waits until the changes of a block `sql` are in Kafka.
    """

    environ: Mapping[str, str]
    server: IngestServer
    wait_until_sent: Callable[[], None]
    folder: Path = field(default_factory=Path.cwd)
    _names: dict[str, Any] = field(default_factory=dict)
    _is_connected: bool = False

    def run(self, block: Block) -> str:
        """Run a block, and return its output."""
        match block.language:
            case "sql":
                self._sql(block.text)
            case "toml":
                (self.folder / CONF).write_text(block.text, encoding="utf-8")
            case "python":
                return _printed(lambda: exec(block.text, self._names))
            case _:
                return self._shell(block.text)
        return ""

    def _sql(self, text: str) -> None:
        """Run it as psql would; a slot is in use until Connect has left it."""
        deadline = time.monotonic() + _SECONDS_MAX
        with self._connection() as connection:
            while True:
                try:
                    connection.execute(text.encode())
                    break
                except psycopg.errors.ObjectInUse:
                    assert time.monotonic() < deadline, text
                    time.sleep(0.1)
        if self._is_connected:
            self.wait_until_sent()

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        words = {name.lower().removeprefix("pg"): value for name, value in self.environ.items()}
        with psycopg.connect(
            host=words["host"], port=words["port"], user=words["user"], dbname=words["database"],
            autocommit=True,
        ) as connection:  # fmt: skip
            yield connection

    def _shell(self, text: str) -> str:
        lines = text.splitlines()
        if lines[0].startswith("./run.sh"):
            return _printed(lambda: [self._verb(line) for line in lines])
        environ = {**os.environ, **self.environ}
        result = subprocess.run(
            ["bash", "-e", "-c", text], env=environ, cwd=self.folder, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        if "-X PUT" in text:
            self._is_connected = True
            self.wait_until_sent()
        elif "-X DELETE" in text:
            self._is_connected = False
        return result.stdout

    def _verb(self, line: str) -> int:
        _, verb, *words = shlex.split(Template(line).substitute(self.environ))
        if verb != "ingest":
            others = ["--set", f"sync.excluding-tables={MARKS}"] if verb == "check" else []
            code = main([verb, *words, *others])
            assert code == 0, line
            return code
        conf = self.folder / words[words.index("--conf") + 1]
        settings = [word for flag, word in pairwise(words) if flag == "--set"]
        result = self.server.run(conf, *self._whole_paths(conf), *settings)
        assert result.code == 0, result.output
        return result.code

    def _whole_paths(self, conf: Path) -> Iterator[str]:
        """The jobs of all tests share a process, whose current folder is another."""
        sections = tomllib.loads(conf.read_text(encoding="utf-8"))
        for section, key in _FOLDERS:
            if place := sections.get(section, {}).get(key):
                yield f"{section}.{key}={self.folder / place}"


def _printed(act: Callable[[], object]) -> str:
    output = io.BytesIO()  # the rows of `read` are bytes
    with io.TextIOWrapper(output, encoding="utf-8", write_through=True) as text:
        with redirect_stdout(text):
            act()
        return output.getvalue().decode()
