"""What a schema says of merging: aggregate functions, and the options that fit no merge engine."""
