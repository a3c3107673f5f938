"""Code mode: runs of code over the granted tools, and their log."""
