# expect: refused
# line: 7
# kind: PolicyRefusal
import sys

tools_of = {"sys": sys}
tools_of["sys"].meta_path.clear()
