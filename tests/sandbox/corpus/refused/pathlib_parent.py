# expect: refused
# line: 7
# kind: PolicyRefusal
from pathlib import Path

secret = Path("data") / ".." / ".." / "secret.txt"
secret.open().read()
