"""What a source loses on its way into tables, as messages show it: said once, with the remedy."""
