"""The verbs of `stream-app`: a module for each verb; `cli.main` lists them."""
