"""Handles parts of Parquet files that pyarrow does not expose. Start with `page_index`."""
