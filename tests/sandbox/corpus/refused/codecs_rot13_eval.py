# expect: refused
# line: 7
# kind: PolicyRefusal
import codecs

source = codecs.decode("vzcbeg fbpxrg", "rot13")
run = exec
run(source)
