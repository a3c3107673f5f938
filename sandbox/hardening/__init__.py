"""What the kernel holds a process to that may have been taken over: walls behind WebAssembly's own.

`walls.py` raises them, one after the other; each of the other modules is one kind. A kernel that lacks one is no reason
not to run: the worker goes on without it, and says so.
"""
