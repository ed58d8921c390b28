"""Opens what a configuration names: the folders of a job, and its tables by their catalog."""
