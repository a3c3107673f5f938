"""`python -m go_ent` is the command."""

from go_ent.engine.cli import main

main()
