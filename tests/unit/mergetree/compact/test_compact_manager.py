"""The compact manager keeps its central rule; the text tests show its other work."""

from __future__ import annotations

import pytest

from stream_app.mergetree.compact.compact_manager import may_drop_deletes


@pytest.mark.parametrize(
    ("output_level", "highest", "expected"),
    [
        pytest.param(5, 5, True, id="output-is-the-highest"),
        pytest.param(5, 0, True, id="all-files-come-from-level-0"),
        pytest.param(4, 5, False, id="older-rows-may-lie-above"),
        pytest.param(0, 0, False, id="runs-of-level-0-overlap"),
        pytest.param(0, -1, False, id="level-0-of-an-empty-bucket"),
    ],
)
def test_deletes_go_only_when_nothing_older_can_lie_above(
    output_level: int, highest: int, expected: bool
) -> None:
    may_drop = may_drop_deletes(output_level=output_level, highest_level_with_files=highest)
    assert may_drop == expected
