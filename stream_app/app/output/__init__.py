"""How rows and values are printed, or sent to Kafka."""
