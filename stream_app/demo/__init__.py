"""The demo: a shop's database, the job, an ALTER and a crash on one screen."""
