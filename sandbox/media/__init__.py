"""Bytes inside JSON, and what files are by their content."""
