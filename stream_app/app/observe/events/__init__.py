"""The events of a job: what its log says of epochs, commits and tables."""
