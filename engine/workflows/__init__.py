"""Workflows (stages with reviews) and loops, built on `Engine.execute`."""
