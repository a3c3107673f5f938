# expect: error
# line: 6
# kind: FileNotFoundError
import os

os.remove("/etc/passwd")
