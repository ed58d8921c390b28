"""What tasks of an epoch do, and what they get and return. Start with `epoch_runner`."""
