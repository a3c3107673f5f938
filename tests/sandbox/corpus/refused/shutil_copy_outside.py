# expect: refused
# line: 6
# kind: PolicyRefusal
import shutil

shutil.copyfile("/etc/passwd", "mine.txt")
