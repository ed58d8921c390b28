"""Looks at everything that a job needs before it runs, and says what to mend."""
