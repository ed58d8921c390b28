"""Compiles all machine code in advance, and prints which decoder runs.

``./run.sh setup`` and the image run ``python -m stream_app.app.launch.compile_ahead``. Otherwise
each process would compile what it needs at its first use, which takes seconds.
"""

from __future__ import annotations

import sys

import pyarrow as pa

from stream_app.cdc.json_records.decoder_choice import AUTO, compile_ahead, decoder_in_use
from stream_app.format.row_hash.row_hashes import row_hashes
from stream_app.variants.json_column import variants_of


def main() -> None:
    """Compile or load all machine code, if Numba is installed."""
    compile_ahead()
    variants_of(pa.array(["{}"]))
    row_hashes(pa.RecordBatch.from_arrays([], names=[]), ())
    sys.stdout.write(f"messages are decoded by {decoder_in_use(AUTO)}\n")


if __name__ == "__main__":
    main()
