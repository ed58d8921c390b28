"""What becomes of verbs, errors and interrupts."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from stream_app.app import cli
from stream_app.app.cli import Verb, main
from stream_app.errors import CommitError, UsageError


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A verb `try` whose `run` a test sets."""
    module = SimpleNamespace(add_parser=lambda verbs: verbs.add_parser("try"))
    monkeypatch.setitem(sys.modules, "verb_of_a_test", module)
    missing = Verb("missing", "no_such_module", "a verb without module")
    verbs = (Verb("try", "verb_of_a_test", "a verb"), missing)
    monkeypatch.setattr(cli, "VERBS", verbs)
    return module


@pytest.mark.parametrize(
    ("thrown", "code", "said"),
    [
        (
            UsageError("wrong", where="here", fix="mend"),
            2,
            "wrong\n  where: here\n  to fix: mend\n",
        ),
        (CommitError("lost"), 1, "lost\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
    ids=["usage", "failure", "interrupt"],
)
def test_errors(
    verb: Any, capsys: pytest.CaptureFixture[str], thrown: BaseException, code: int, said: str
) -> None:
    def run(_: object) -> int:
        raise thrown

    verb.run = run
    assert main(["try"]) == code
    assert capsys.readouterr().err == said


def test_what_nobody_expected_is_shown_with_its_trace(
    verb: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    verb.run = lambda _: 1 // 0
    assert main(["try"]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_the_exit_code_is_the_verbs(verb: Any) -> None:
    verb.run = lambda _: 7
    assert main(["try"]) == 7


def test_a_verb_that_is_missing_breaks_no_other(
    verb: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    verb.run = lambda _: 0
    assert main(["try"]) == 0
    assert main(["--help"]) == 0
    assert "a verb without module" in capsys.readouterr().out
    assert main(["missing"]) == 1


@pytest.mark.parametrize("argv", [[], ["frobnicate"], ["try", "--nonsense"]])
def test_wrong_use(verb: Any, capsys: pytest.CaptureFixture[str], argv: list[str]) -> None:
    assert main(argv) == 2
    assert "usage: stream-app" in capsys.readouterr().err
