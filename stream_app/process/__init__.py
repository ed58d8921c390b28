"""What belongs to one process: its start, its local disk, the facts of its log lines."""
