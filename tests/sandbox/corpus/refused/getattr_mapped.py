# expect: refused
# line: 6
# kind: PolicyRefusal
import functools

functools.reduce(getattr, ["__class__", "__base__", "__subclasses__"], 1)()
