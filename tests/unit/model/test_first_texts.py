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
