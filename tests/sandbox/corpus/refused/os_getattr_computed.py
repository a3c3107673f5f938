# expect: refused
# line: 6
# kind: PolicyRefusal
import os

getattr(os, "sys" + "tem")("id")
