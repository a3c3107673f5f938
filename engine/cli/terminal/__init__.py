"""How the command line talks to a person: output, tables, progress, questions, signals."""
