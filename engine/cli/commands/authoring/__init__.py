"""Commands for people who write composed tools."""
