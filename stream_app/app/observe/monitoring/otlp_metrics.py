"""Metrics of Prometheus as OpenTelemetry has them: gauges, sums that only grow, histograms.

Source: OpenTelemetry, "Prometheus and OpenMetrics Compatibility".
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator

from opentelemetry.sdk.metrics import export as otel
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from stream_app import __version__

_SCOPE = InstrumentationScope("stream_app", __version__)
_CUMULATIVE = otel.AggregationTemporality.CUMULATIVE
Labels = tuple[tuple[str, str], ...]


def metrics_data(
    families: Iterable[Metric], resource: Resource, began_ns: int, now_ns: int
) -> otel.MetricsData:
    """All families; times are nanoseconds since 1970 in UTC, `began_ns` that of the counters."""
    metrics = [
        otel.Metric(_name(family), family.documentation, _unit(family), data)
        for family in families
        if (data := _data(family, began_ns, now_ns)) is not None
    ]
    scope = otel.ScopeMetrics(_SCOPE, metrics, "")
    return otel.MetricsData([otel.ResourceMetrics(resource, [scope], "")])


def _name(family: Metric) -> str:
    """As Prometheus names the samples."""
    return f"{family.name}_total" if family.type == "counter" else family.name


def _unit(family: Metric) -> str:
    for ending, unit in (("_seconds", "s"), ("_bytes", "By"), ("_ratio", "1")):
        if family.name.endswith(ending):
            return unit
    return ""


def _data(family: Metric, began_ns: int, now_ns: int) -> otel.DataT | None:
    if family.type == "histogram":
        points = list(_histograms(family.samples, began_ns, now_ns))
        return otel.Histogram(points, _CUMULATIVE) if points else None
    is_counter = family.type == "counter"
    numbers = [
        otel.NumberDataPoint(
            attributes=dict(sample.labels),
            start_time_unix_nano=began_ns if is_counter else 0,
            time_unix_nano=now_ns,
            value=sample.value,
        )
        for sample in family.samples
    ]
    if not numbers:
        return None
    if is_counter:
        return otel.Sum(numbers, _CUMULATIVE, is_monotonic=True)
    return otel.Gauge(numbers)


def _histograms(
    samples: Iterable[Sample], began_ns: int, now_ns: int
) -> Iterator[otel.HistogramDataPoint]:
    """Prometheus counts up to each bound, OpenTelemetry between two."""
    buckets: dict[Labels, list[tuple[float, float]]] = defaultdict(list)
    sums: dict[Labels, float] = {}
    for sample in samples:
        labels = {name: value for name, value in sample.labels.items() if name != "le"}
        of_one = tuple(sorted(labels.items()))
        if sample.name.endswith("_bucket"):
            buckets[of_one].append((float(sample.labels["le"]), sample.value))
        elif sample.name.endswith("_sum"):
            sums[of_one] = sample.value
    for of_one, found in buckets.items():
        bounds, totals = zip(*sorted(found), strict=True)
        between = [int(after - before) for before, after in zip((0, *totals), totals, strict=False)]
        yield otel.HistogramDataPoint(
            attributes=dict(of_one),
            start_time_unix_nano=began_ns,
            time_unix_nano=now_ns,
            count=int(totals[-1]),
            sum=sums.get(of_one, math.nan),
            bucket_counts=between,
            explicit_bounds=[bound for bound in bounds if not math.isinf(bound)],
            min=None,  # type: ignore[arg-type]  # Prometheus has neither
            max=None,  # type: ignore[arg-type]
        )
