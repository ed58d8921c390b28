"""What retention may delete, and which tags are due. Start with `expire_range`."""
