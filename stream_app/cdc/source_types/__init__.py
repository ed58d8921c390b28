"""Maps types of databases and of Kafka Connect to types of columns."""
