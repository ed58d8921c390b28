"""Builds programs from the packages below: configuration, jobs, command line and page.

Start with `cli.main`.
"""
