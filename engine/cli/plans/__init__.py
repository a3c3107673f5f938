"""Plans at the command line: drawn, run in part, and resumed when they have changed."""
