# expect: refused
# line: 6
# kind: PolicyRefusal
import io

io.open("/etc/passwd").read()
