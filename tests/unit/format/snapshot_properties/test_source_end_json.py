"""An epoch's end in its source is stored as offsets of topics, or as another source's text."""

import pytest

from stream_app.format.snapshot_properties.source_end_json import (
    offsets_of_end,
    offsets_of_topics,
)


def test_an_end_has_the_offsets_of_its_topics() -> None:
    assert offsets_of_topics('{"shop.orders": {"0": 7}}') == {"shop.orders": {"0": 7}}


def test_the_end_of_a_folder_has_no_offsets() -> None:
    assert offsets_of_topics('{"logOffset": 3}') == {}


@pytest.mark.parametrize("damaged_text", ["{damaged", "", "[1]", "7"])
def test_a_damaged_end_of_a_checkpoint_is_an_error(damaged_text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        offsets_of_topics(damaged_text)


@pytest.mark.parametrize("text", [None, "", "a text of the Python API's caller", "[1]"])
def test_a_snapshot_of_another_writer_has_no_offsets(text: str | None) -> None:
    assert offsets_of_end(text) == {}
