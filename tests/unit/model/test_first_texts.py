"""A list in a message is cut after its first texts, and says how many follow."""

from __future__ import annotations

import pytest

from stream_app.model.first_texts import first_texts


@pytest.mark.parametrize(
    ("texts", "separator", "expected"),
    [
        pytest.param((), ", ", "", id="nothing"),
        pytest.param(("a", "b"), ", ", "a, b", id="as-many-as-fit"),
        pytest.param(("a", "b", "c"), ", ", "a, b and 1 more", id="one-more"),
        pytest.param(("a", "b", "c", "d"), "; ", "a; b; and 2 more", id="semicolons"),
    ],
)
def test_the_first_texts_and_how_many_follow(
    texts: tuple[str, ...], separator: str, expected: str
) -> None:
    assert first_texts(texts, 2, separator) == expected


def test_only_the_first_items_are_formatted() -> None:
    """A comparison may have millions of keys, and a message shows twenty."""
    formatted_items = []

    def text_of(item: int) -> str:
        formatted_items.append(item)
        return f"{item}."

    assert first_texts(range(1000), 2, text_of=text_of) == "0., 1. and 998 more"
    assert formatted_items == [0, 1]
