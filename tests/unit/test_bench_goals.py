"""`bench goals` succeeds only if every goal is measured and met; pictures show each curve."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from bench import goals
from bench.goal import Goal
from bench.growth.curves import curves

MET = Goal("fast", 0.5, 1)
TOO_SLOW = Goal("slow", 1.5, 1)
TOO_FEW = Goal("few", 1.5, 2, at_least=True)
UNMEASURED = Goal("lacks its jars", None, 1)


def part_of(*measured_goals: Goal) -> goals.Part:
    def part(setup: goals.Setup) -> Iterator[Goal]:
        assert setup.folder.is_dir()
        return iter(measured_goals)

    return part


def test_all_goals_met_end_well(capsys: pytest.CaptureFixture[str]) -> None:
    goals.main([], {"first": part_of(MET), "second": part_of(MET)})
    assert capsys.readouterr().out.count("| fast | 0.5 | ≤ 1 | met |") == 2


@pytest.mark.parametrize("missed_goal", [TOO_SLOW, TOO_FEW, UNMEASURED])
def test_a_missed_goal_ends_with_an_error(missed_goal: Goal) -> None:
    with pytest.raises(SystemExit) as raised:
        goals.main([], {"first": part_of(MET, missed_goal)})
    assert raised.value.code == "1 of 2 goals are missed"


def test_a_named_part_is_measured_alone(capsys: pytest.CaptureFixture[str]) -> None:
    goals.main(["first"], {"first": part_of(MET), "second": part_of(TOO_SLOW)})
    assert "slow" not in capsys.readouterr().out


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(SystemExit) as raised:
        goals.main(["third"], {"first": part_of(MET)})
    assert raised.value.code == 2


def test_a_picture_has_a_point_for_each_value_and_costs_rise_upwards() -> None:
    picture = curves("Costs", "rows", [10, 100, 1000], {"ours": [0.1, 0.2, 0.4], "theirs": [3.0]})
    root = ElementTree.fromstring(picture)
    lines = [node for node in root.iter() if node.tag.endswith("polyline")]
    points = [
        [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]
        for line in lines
    ]
    assert [len(curve) for curve in points] == [3, 1]
    across, upwards = zip(*points[0], strict=True)
    assert list(across) == sorted(across)
    assert list(upwards) == sorted(upwards, reverse=True)
    assert points[1][0][1] < points[0][0][1]
