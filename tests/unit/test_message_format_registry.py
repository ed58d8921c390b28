"""Each format of the registry declares its options, and accepts them."""

from __future__ import annotations

import pytest

from stream_app.cdc.message_format import FormatDeclaration
from stream_app.errors import UsageError
from stream_app.message_format_registry import DEFAULT_FORMAT, FORMATS, format_named
from stream_app.model.schema.data_type import parse_columns

_TEXTS = {"column-aliases": "renamed=v", "type-mapping": "to-nullable,tinyint1-not-bool"}
COLUMNS = parse_columns("id BIGINT, v STRING")


@pytest.mark.parametrize("declaration", FORMATS.values(), ids=FORMATS)
def test_a_format_takes_every_value_that_it_declares_and_no_other(
    declaration: FormatDeclaration,
) -> None:
    for option in declaration.options:
        if "NAME" in option.key:
            continue
        for value in option.only or (
            _TEXTS.get(option.key) or option.default or option.example or "id",
        ):
            declaration.check({option.key: value}, COLUMNS)
        if option.only:
            with pytest.raises(UsageError, match=option.key):
                declaration.check({option.key: "none-of-them"}, COLUMNS)


@pytest.mark.parametrize("declaration", FORMATS.values(), ids=FORMATS)
def test_an_error_about_a_misspelt_option_lists_all_options(declaration: FormatDeclaration) -> None:
    with pytest.raises(UsageError) as caught:
        declaration.check({"unknown-column": "warn"}, COLUMNS)
    assert caught.value.where == f"source.{declaration.section}"
    assert "did you mean 'unknown-columns'?" in caught.value.problem
    assert all(option.key in caught.value.fix for option in declaration.options)


def test_a_format_is_found_by_its_name() -> None:
    assert format_named(DEFAULT_FORMAT).name == DEFAULT_FORMAT
    assert format_named("debezium-json").full_key("truncate") == "source.debezium.truncate"
