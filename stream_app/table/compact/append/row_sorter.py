"""Sorts the rows of a partition for a sorted compaction, in bounded memory.

1. Read only the sort columns, and sample their values.
2. If the rows may not fit into memory, divide the sort order into ranges. Write the rows of each
   range to a file on local disk.
3. Sort one range after another.

`append_task` calls it. One task sorts a whole partition; in Paimon, Spark or Flink shuffles it.

Source: Paimon `spark/sort/TableSorter.java`, `flink/shuffle/RangeShuffle.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.format.binary_row_columns import Words
from stream_app.format.curve_order import hilbert_order, ordered_words, z_order
from stream_app.model.files.row_order import OrderStrategy, RowOrder
from stream_app.model.schema.data_type import RowType
from stream_app.process.local_disk import scratch_folder

RANGES_MAX = 500
"""The maximum number of ranges, because the file of each range is open at the same time."""
_ARROW_BYTES_PER_STORED_BYTE = 4
"""The assumed bytes in Arrow for each byte of Parquet; there are two to five."""
_SAMPLES_MAX = 1000
"""The maximum number of rows that are sampled from one batch."""

BatchSource = Callable[[], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class RowSorter:
    """A sorter of rows.

    Attributes:
        columns: the table's columns.
        memory_bytes_max: the maximum bytes of Arrow data in one sort.
    """

    order: RowOrder
    columns: RowType
    memory_bytes_max: int

    def rows(
        self, read_batches: BatchSource, read_order_columns: BatchSource, stored_size: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all batches in sorted order.

        Args:
            read_batches: reads all rows with all columns.
            read_order_columns: reads all rows with only the sort columns.
            stored_size: the total size of the files.
        """
        arrow_size = _ARROW_BYTES_PER_STORED_BYTE * stored_size
        range_count = min(-(-arrow_size // self.memory_bytes_max), RANGES_MAX)
        if range_count <= 1:
            yield from self._sort(list(read_batches()))
            return
        with scratch_folder("sort") as folder, ExitStack() as files:
            paths = [
                Path(folder) / f"range-{range_index}.arrow" for range_index in range(range_count)
            ]
            bounds = self._bounds(read_order_columns(), range_count)
            self._spill(read_batches(), bounds, paths)
            for path in paths:
                if path.exists():
                    source = files.enter_context(pa.memory_map(str(path)))
                    yield from self._sort(list(pa.ipc.open_stream(source)))

    def _sort(self, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not batches:
            return
        table = pa.Table.from_batches(batches)
        if self.order.strategy is OrderStrategy.ORDER:
            keys = []
            for name in self.order.columns:  # nulls sort first
                table = table.append_column(f"\0{name}", pc.is_valid(table.column(name)))
                keys += [(f"\0{name}", "ascending"), (name, "ascending")]
            order = pc.sort_indices(table, sort_keys=keys)
            table = table.select(batches[0].schema.names)
        else:
            # lexsort's last key is its primary one.
            order = pa.array(np.lexsort(self._words(table)[::-1]))
        yield from table.take(order).to_batches()

    def _words(self, rows: pa.Table | pa.RecordBatch) -> list[Words]:
        columns = []
        for name in self.order.columns:
            column = rows.column(name)
            values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            columns.append(ordered_words(values, self.columns.field(name).data_type))
        match self.order.strategy:
            case OrderStrategy.ORDER:
                return columns
            case OrderStrategy.ZORDER:
                return z_order(columns)
            case OrderStrategy.HILBERT:
                return hilbert_order(columns)

    def _bounds(self, batches: Iterator[pa.RecordBatch], range_count: int) -> Words:
        """Return the words at which the later ranges of similar size begin: uint64 [ranges - 1]."""
        samples = [np.empty(0, dtype=np.uint64)]
        for batch in batches:
            step = -(-batch.num_rows // _SAMPLES_MAX)
            samples.append(self._words(batch.take(pa.array(range(0, batch.num_rows, step))))[0])
        sample = np.sort(np.concatenate(samples))
        return sample[np.arange(1, range_count) * len(sample) // range_count]

    def _spill(
        self, batches: Iterator[pa.RecordBatch], bounds: Words, paths: Sequence[Path]
    ) -> None:
        """Write the rows of each range of keys to the file of that range."""
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        writers: dict[int, pa.ipc.RecordBatchStreamWriter] = {}
        with ExitStack() as files:
            for batch in batches:
                range_of = np.searchsorted(bounds, self._words(batch)[0], side="right")
                order = np.argsort(range_of, kind="stable")
                rows = batch.take(pa.array(order))
                range_indices, starts = np.unique(range_of[order], return_index=True)
                ends = [*starts[1:].tolist(), batch.num_rows]
                for range_index, start, end in zip(
                    range_indices.tolist(), starts.tolist(), ends, strict=True
                ):
                    if range_index not in writers:
                        sink = files.enter_context(pa.OSFile(str(paths[range_index]), "wb"))
                        writers[range_index] = files.enter_context(
                            pa.ipc.new_stream(sink, batch.schema, options=options)
                        )
                    writers[range_index].write_batch(rows.slice(start, end - start))
