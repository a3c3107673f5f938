# expect: error
# line: 7
# kind: SystemExit
import sys

print("before")
sys.exit(3)
