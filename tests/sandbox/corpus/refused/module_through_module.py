# expect: refused
# line: 6
# kind: PolicyRefusal
import logging

logging.os.environ.clear()
