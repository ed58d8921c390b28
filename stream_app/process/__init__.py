"""What belongs to one process: its start, its local disk, the fields of its log lines."""
