"""The command line runs its verbs, prints their errors, and handles interrupts."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stream_app.app.cli.main import main
from stream_app.app.cli.verb_list import Verb
from stream_app.errors import CommitError, UsageError
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.tables.small_table import small_table

VERBS = (
    Verb("try", "verb_of_a_test", "a verb"),
    Verb("missing", "no_such_module", "a verb without module"),
)


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A verb `try` whose `run` a test sets."""
    module = SimpleNamespace(DESCRIPTION="", EPILOG="", add_arguments=lambda _: None)
    monkeypatch.setitem(sys.modules, "verb_of_a_test", module)
    return module


@pytest.mark.parametrize(
    ("thrown", "code", "message"),
    [
        (
            UsageError("wrong", where="here", fix="correct"),
            2,
            "wrong\n  where: here\n  to fix: correct\n",
        ),
        (CommitError("lost"), 1, "lost\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
    ids=["usage", "failure", "interrupt"],
)
def test_each_error_has_its_exit_code_and_text(
    verb: Any, capsys: pytest.CaptureFixture[str], thrown: BaseException, code: int, message: str
) -> None:
    def run(_: object) -> int:
        raise thrown

    verb.run = run
    assert main(["try"], verbs=VERBS) == code
    assert capsys.readouterr().err == message


def test_an_unexpected_error_is_shown_with_its_trace(
    verb: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    verb.run = lambda _: 1 // 0
    assert main(["try"], verbs=VERBS) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_the_exit_code_is_the_verbs(verb: Any) -> None:
    verb.run = lambda _: 7
    assert main(["try"], verbs=VERBS) == 7


def test_a_verb_that_is_missing_breaks_no_other(
    verb: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    verb.run = lambda _: 0
    assert main(["try"], verbs=VERBS) == 0
    assert main(["--help"], verbs=VERBS) == 0
    assert "a verb without module" in capsys.readouterr().out
    assert main(["missing"], verbs=VERBS) == 1


@pytest.mark.parametrize("argv", [[], ["frobnicate"], ["try", "--nonsense"]])
def test_a_wrong_command_line_prints_the_usage(
    verb: Any, capsys: pytest.CaptureFixture[str], argv: list[str]
) -> None:
    assert main(argv, verbs=VERBS) == 2
    assert "usage: stream-app" in capsys.readouterr().err


def test_expiry_deletes_nothing_when_the_latest_snapshot_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Older versions may be all that is left of the rows; going back to one is the way out."""
    small = small_table(tmp_path / "db.db" / "t", "k INT, v STRING", ("k",))
    for epoch in range(4):
        small.commit(("+I", {"k": epoch, "v": "x"}))
    table = small.table
    latest = table.snapshots.latest()
    assert latest is not None
    newest = FileStoreScan(table).manifests(latest)[-1]
    Path(table.location, "manifest", newest.file_name).write_bytes(b"Obj")
    assert main(["expire-snapshots", table.location, "--retain-max", "1", "--retain-min", "1"]) == 2
    assert "nothing is deleted" in capsys.readouterr().err
    assert table.snapshots.ids() == [1, 2, 3, 4]
    assert main(["rollback-to", table.location, "--snapshot", "3"]) == 0
    assert table.snapshots.ids() == [1, 2, 3]
