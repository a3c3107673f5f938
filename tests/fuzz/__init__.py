"""Every parser that reads bytes from outside, given bytes that nobody meant.

`targets()` has one target for each. The everyday suite runs them on their seeds and on a few changes of those; `make
fuzz` has atheris look for inputs that no one thought of, for a minute each.
"""
