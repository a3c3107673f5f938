# expect: refused
# line: 6
# kind: PolicyRefusal
import json

json.__loader__.get_source("json")
