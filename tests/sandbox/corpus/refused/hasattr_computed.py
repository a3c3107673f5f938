# expect: refused
# line: 5
# kind: PolicyRefusal
for name in ("append", "gi_" + "frame"):
    print(hasattr((n for n in []), name))
