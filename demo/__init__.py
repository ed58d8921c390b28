"""The demo: a broker, a shop's changes, the job and a crash, on one screen. Not in the package."""
