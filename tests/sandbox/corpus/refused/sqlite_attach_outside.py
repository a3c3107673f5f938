# expect: error
# line: 7
# kind: DatabaseError
import sqlite3

db = sqlite3.connect(":memory:")
db.execute("ATTACH DATABASE '/etc/passwd' AS other")
