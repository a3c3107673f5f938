"""Processes that a test kills: what they do, and who starts them."""
