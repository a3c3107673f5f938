# expect: refused
# line: 6
# kind: PolicyRefusal
from pathlib import Path

Path("/etc/passwd").read_text()
