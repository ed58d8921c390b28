"""Rows and changes as `read` and `changelog` print them, and the screen of `top`.

`upkeep_steps` prints the plan and the outcome of an upkeep verb.
"""
