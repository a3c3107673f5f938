# expect: refused
# line: 4
# kind: PolicyRefusal
import json, re, ctypes

print(ctypes.CDLL(None))
