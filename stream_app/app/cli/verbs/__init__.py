"""The verbs of `stream-app`: a module for each verb; `cli.verb_list` lists them."""
