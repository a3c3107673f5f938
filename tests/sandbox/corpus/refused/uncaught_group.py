# expect: error
# line: 4
# kind: ExceptionGroup
raise ExceptionGroup("several", [ValueError(1), TypeError("x")])
