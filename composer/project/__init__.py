"""A project's folder: its settings with their lines, trust, its files and locks, its image."""
