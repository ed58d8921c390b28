"""Parts of Parquet files that pyarrow does not show: start with `page_index`."""
