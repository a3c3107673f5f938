# expect: refused
# line: 4
# kind: PolicyRefusal
[run(text) for text in ("1", "2") for run in (eval,)]
