# expect: refused
# line: 6
# kind: PolicyRefusal
import textwrap

textwrap.__builtins__["eval"]("1 + 1")
