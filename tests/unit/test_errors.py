"""Errors say what is wrong, where and how to fix it, and survive a process border."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from stream_app import errors
from stream_app.errors import CommitConflictError, CommitError, StreamAppError, UsageError

CLASSES = [
    error_class
    for _, error_class in inspect.getmembers(errors, inspect.isclass)
    if issubclass(error_class, StreamAppError)
]


def test_the_tree_in_the_docstring_is_true() -> None:
    drawn = re.findall(r"^( *)[│├└─ ]*?(\w+Error)\b", errors.__doc__ or "", flags=re.MULTILINE)
    assert sorted(name for _, name in drawn) == sorted(
        error_class.__name__ for error_class in CLASSES
    )
    assert issubclass(CommitConflictError, CommitError)


def test_an_error_says_what_where_and_how_to_fix() -> None:
    assert str(UsageError("no such key 'bukket'", where="job.toml", fix="write bucket")) == (
        "no such key 'bukket'\n  where: job.toml\n  to fix: write bucket"
    )
    assert str(UsageError("it is wrong", fix="correct it")) == "it is wrong\n  to fix: correct it"
    assert str(UsageError("it is wrong")) == "it is wrong"


@pytest.mark.parametrize("error_class", CLASSES)
def test_an_error_keeps_its_parts_when_it_is_pickled(error_class: type[StreamAppError]) -> None:
    error = error_class("what", where="where", fix="fix")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is error_class
    assert (copy.problem, copy.where, copy.fix) == ("what", "where", "fix")
    assert {copy: 1}[copy] == 1  # as tracebacks and frameworks ask of an exception
    assert error_class.__doc__
