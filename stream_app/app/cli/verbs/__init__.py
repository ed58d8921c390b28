"""The verbs of `stream-app`: a module for each verb; `app.cli.verb_list` lists them."""
