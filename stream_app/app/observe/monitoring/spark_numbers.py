"""A job's numbers among those of Spark, for whatever sink Spark's metrics system has.

Spark takes numbers of an application without code in Java: accumulators that are registered with
its `DoubleAccumulatorSource`. They appear as ``APP.driver.AccumulatorSource.NAME``. A thread sets
them, so no epoch waits for it.

Source: Spark `metrics/source/AccumulatorSource.scala`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from pyspark.sql import SparkSession

from stream_app.spark.internals import java_context, jvm

_LOG = logging.getLogger(__name__)
PERIOD_S = 10.0
SUMS = (
    "stream_app_messages_total",
    "stream_app_changes_total",
    "stream_app_bad_records_total",
    "stream_app_back_pressure_seconds_total",
    "stream_app_compactions_queued",
    "stream_app_compactions_failed_total",
    "stream_app_store_errors_total",
    "stream_app_held_tables",
)
MAXIMA = ("stream_app_lag_messages", "stream_app_freshness_seconds", "stream_app_sorted_runs_max")
"""Over all tables: Spark's names have no labels."""


def numbers_for_spark(families: Iterable[Metric]) -> Mapping[str, float]:
    """The numbers of all tables of a job together."""
    found = dict.fromkeys((*SUMS, *MAXIMA), 0.0)
    for family in families:
        for sample in family.samples:
            if sample.name in SUMS:
                found[sample.name] += sample.value
            elif sample.name in MAXIMA:
                found[sample.name] = max(found[sample.name], sample.value)
    return found


@dataclass(slots=True)
class SparkNumbers:
    """Registers the numbers with Spark, and keeps them up until `end`."""

    spark: SparkSession
    registry: CollectorRegistry
    _accumulators: dict[str, Any] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def begin(self) -> None:
        """Register the numbers, and begin to set them."""
        scala, java = java_context(self.spark).sc(), jvm(self.spark)
        named = java.scala.collection.immutable.HashMap()
        for name in numbers_for_spark(()):
            self._accumulators[name] = scala.doubleAccumulator(name)
            named = named.updated(name, self._accumulators[name])
        # The class itself has a method of this name, which hides that of the object.
        source = getattr(java.org.apache.spark.metrics.source, "DoubleAccumulatorSource$")
        getattr(source, "MODULE$").register(scala, named)
        self._thread = threading.Thread(target=self._set_all, name="spark-numbers", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop before Spark does."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def set(self) -> None:
        """Set the numbers of this moment."""
        for name, value in numbers_for_spark(self.registry.collect()).items():
            accumulator = self._accumulators[name]
            accumulator.add(value - accumulator.value())

    def _set_all(self) -> None:
        is_told = False
        while True:
            try:
                self.set()
            except Exception as error:  # the job goes on, and the next time may do
                if not is_told and not self._ended.is_set():
                    _LOG.warning("Spark does not take the job's numbers now: %s", error)
                    is_told = True
            if self._ended.wait(PERIOD_S):
                return
