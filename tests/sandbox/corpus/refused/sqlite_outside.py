# expect: refused
# line: 7
# kind: PolicyRefusal
import sqlite3

path = "/".join(["", "etc", "passwd"])
sqlite3.connect(path).execute("SELECT * FROM sqlite_master").fetchall()
