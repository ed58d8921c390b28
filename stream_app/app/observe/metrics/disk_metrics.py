"""Free space of the disks that a job on this machine writes to, asked for at each scrape."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stream_app.app.observe.metrics.collectors import PREFIX


@dataclass(slots=True, eq=False)
class DiskCollector(Collector):
    """The numbers.

    Attributes:
        label: of the job.
        folders: what is written there → the folder; a missing one will be made below its parents.
    """

    label: str
    folders: Mapping[str, Path] = field(default_factory=dict)

    def collect(self) -> Iterator[Metric]:
        """A sample for each folder."""
        free = self._family("disk_free_bytes", "Free space of the disk of a folder.")
        size = self._family("disk_size_bytes", "Size of that disk.")
        for name, folder in self.folders.items():
            try:
                there = next((path for path in (folder, *folder.parents) if path.exists()), None)
                usage = None if there is None else shutil.disk_usage(there)
            except OSError:
                continue  # a mount that hangs must not take the other numbers
            if usage is not None:
                free.add_metric([self.label, name], usage.free)
                size.add_metric([self.label, name], usage.total)
        yield from (free, size)

    def _family(self, name: str, meaning: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(PREFIX + name, meaning, labels=["table", "folder"])
