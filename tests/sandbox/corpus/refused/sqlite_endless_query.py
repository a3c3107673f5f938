# expect: cpu_limit
# limits: {"cpu_s": 0.15}
import sqlite3

db = sqlite3.connect(":memory:")
db.execute("WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT max(n) FROM c").fetchone()
