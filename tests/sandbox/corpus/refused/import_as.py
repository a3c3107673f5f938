# expect: refused
# line: 4
# kind: PolicyRefusal
import subprocess as sp

sp.run(["ls", "-la"], capture_output=True).stdout
