"""What a job keeps in its checkpoint: state, held tables, a load's plan. Start with `job_state`."""
