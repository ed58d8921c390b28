"""Chosen compaction rules keep their limits, stay for a bucket that varies, and repeat."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.mergetree.compact.universal_compaction import UniversalCompaction
from stream_app.planning.compact.compaction_policy import (
    AMPLIFICATIONS,
    FRESHNESS_MIN,
    SIZE_RATIOS,
    SPARE_RUN_COUNT,
    BucketSizes,
    FixedRules,
    choose_rules,
    is_due,
)
from stream_app.planning.compact.policy_simulation import simulate

SIZES = st.builds(
    BucketSizes,
    size=st.integers(0, 600),
    flush_size=st.integers(1, 40),
    level=st.just(5),
    num_levels=st.sampled_from((2, 6, 11)),
)
TABLES = st.builds(
    UniversalCompaction,
    run_count_trigger=st.sampled_from((3, 5, 10)),
    size_ratio=st.sampled_from((1, 70)),
    max_size_amplification_percent=st.sampled_from((100, 200)),
)
FIXED = st.builds(
    FixedRules,
    fixes_trigger=st.booleans(),
    fixes_size_ratio=st.booleans(),
    fixes_amplification=st.booleans(),
)
FRESHNESS = st.sampled_from((FRESHNESS_MIN, 8, 20))


@settings(deadline=None, max_examples=30)
@given(SIZES, TABLES, FIXED, FRESHNESS)
def test_a_choice_stays_within_its_limits_and_is_the_same_again(
    sizes: BucketSizes, table: UniversalCompaction, fixed_rules: FixedRules, freshness: int
) -> None:
    choice = choose_rules(sizes, table, fixed_rules, freshness)
    rules = choice.rules
    if fixed_rules.fixes_trigger:
        assert rules.run_count_trigger == table.run_count_trigger
    else:
        assert 2 <= rules.run_count_trigger <= freshness - SPARE_RUN_COUNT
    ratios = (
        (table.size_ratio,) if fixed_rules.fixes_size_ratio else (*SIZE_RATIOS, table.size_ratio)
    )
    assert rules.size_ratio in ratios
    percents = (table.max_size_amplification_percent,)
    assert rules.max_size_amplification_percent in (
        percents if fixed_rules.fixes_amplification else (*AMPLIFICATIONS, *percents)
    )
    if table.run_count_trigger <= freshness - SPARE_RUN_COUNT:
        assert choice.write_amplification <= choice.write_amplification_before * 1.1
    assert choose_rules(sizes, table, fixed_rules, freshness) == choice
    assert choose_rules(sizes, table, fixed_rules, freshness, choice) == choice
    assert not is_due(choice, sizes)


@settings(deadline=None, max_examples=30)
@given(SIZES, st.floats(1.0, 1.9), FRESHNESS)
def test_a_bucket_that_goes_back_and_forth_keeps_its_rules(
    sizes: BucketSizes, factor: float, freshness: int
) -> None:
    sizes = replace(sizes, size=sizes.size + 100)
    choice = choose_rules(sizes, UniversalCompaction(), FixedRules(), freshness)
    larger = replace(sizes, size=int(sizes.size * factor))
    assert not is_due(choice, larger)
    again = choose_rules(sizes, UniversalCompaction(), FixedRules(), freshness, choice)
    assert again.rules == choice.rules


@settings(deadline=None, max_examples=30)
@given(TABLES, st.integers(16, 300), st.sampled_from((2, 6, 11)))
def test_a_simulation_writes_each_byte_once_at_least_and_keeps_to_the_trigger(
    rules: UniversalCompaction, size: int, num_levels: int
) -> None:
    for updates in (True, False):
        cost = simulate(rules, num_levels, size, count_max=2 * size, has_updates=updates)
        assert cost.write_amplification >= 1
        assert 1 <= cost.mean_run_count <= rules.run_count_trigger + 1
