# expect: memory_limit
# limits: {"memory_mb": 64}
import sqlite3

db = sqlite3.connect(":memory:")
db.execute("CREATE TABLE t (b BLOB)")
while True:
    db.execute("INSERT INTO t VALUES (randomblob(1000000))")
