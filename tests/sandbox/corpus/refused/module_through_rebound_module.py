# expect: refused
# line: 7
# kind: PolicyRefusal
import logging

log = logging
log.sys.modules["builtins"].eval("1 + 1")
