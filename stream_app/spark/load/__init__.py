"""Reads a first load's parts as the first epochs of a job. `app.load` begins a load."""
