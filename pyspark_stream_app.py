"""Where Spark looks for sources in Python: modules whose name begins with ``pyspark_``.

Source: Spark `pyspark/sql/worker/lookup_data_sources.py`.
"""

from stream_app.spark.read.data_source import PaimonDataSource as DefaultSource

__all__ = ["DefaultSource"]
