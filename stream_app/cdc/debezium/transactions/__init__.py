"""The transactions of Debezium's messages, and their positions in the source's log."""
