"""Lists the kinds of file indexes by their names in options and files."""

from __future__ import annotations

from stream_app.format.file_index.bit_sliced_index import BIT_SLICED
from stream_app.format.file_index.bitmap_index import BITMAP
from stream_app.format.file_index.bloom_filter import BLOOM_FILTER
from stream_app.format.file_index.index_kind import FileIndexKind
from stream_app.format.file_index.range_bitmap import RANGE_BITMAP

FILE_INDEX_KINDS: dict[str, FileIndexKind] = {
    kind.name: kind for kind in (BLOOM_FILTER, BITMAP, BIT_SLICED, RANGE_BITMAP)
}
