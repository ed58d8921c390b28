"""CDC from Kafka into Apache Paimon tables with PySpark, compacted while it is written."""

__version__ = "0.1.0"
