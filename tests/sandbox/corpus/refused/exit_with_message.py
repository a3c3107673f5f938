# expect: error
# line: 4
# kind: SystemExit
raise SystemExit("usage: tool FILE")
