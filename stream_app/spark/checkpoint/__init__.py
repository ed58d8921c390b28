"""What a job keeps in its checkpoint: state, held tables, log of epochs. Start with `job_state`."""
