"""A job's files in its checkpoint: its state, its held tables, the plan of a first load. Start with
`job_state`.
"""
