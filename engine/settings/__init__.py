"""A project's settings as a whole: their schema, what is in force and where it comes from, what is wrong, and a
first project.
"""
