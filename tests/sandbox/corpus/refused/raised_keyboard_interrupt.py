# expect: error
# line: 4
# kind: KeyboardInterrupt
raise KeyboardInterrupt
