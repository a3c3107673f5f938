"""The console: a local web page of a project. Rendered here, live by server-sent events, nothing inline, no build.

`pages` has one module for each page; what they are made of is here. A page adds itself by being there.
"""
