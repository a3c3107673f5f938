"""Composed tools: their files, interfaces, examples, versions and usage."""
