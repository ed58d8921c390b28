"""Types of databases and of Kafka Connect → types of columns. Pure; used by the formats."""
