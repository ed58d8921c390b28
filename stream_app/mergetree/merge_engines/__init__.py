"""How rows of one key become one: a module for each merge engine."""
