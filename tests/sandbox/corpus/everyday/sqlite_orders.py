# expect: [[["Ann", 2, 42.5], ["Bob", 1, 10.0]], {"id": 3, "placed": "2024-03-01", "total": 10.0}, 3, "UNIQUE constraint failed: customers.name"]
import datetime
import sqlite3

SCHEMA = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL);
CREATE TABLE orders (
    id INTEGER PRIMARY KEY,
    customer INTEGER NOT NULL REFERENCES customers (id),
    placed DATE NOT NULL,
    total REAL NOT NULL
);
"""

sqlite3.register_adapter(datetime.date, datetime.date.isoformat)
sqlite3.register_converter("date", lambda raw: datetime.date.fromisoformat(raw.decode()))

with sqlite3.connect(":memory:", detect_types=sqlite3.PARSE_DECLTYPES) as db:
    db.row_factory = sqlite3.Row
    db.executescript(SCHEMA)
    db.executemany("INSERT INTO customers (name) VALUES (?)", [("Ann",), ("Bob",)])
    orders = [(1, datetime.date(2024, 1, 5), 12.5), (1, datetime.date(2024, 2, 9), 30), (2, datetime.date(2024, 3, 1), 10)]
    db.executemany("INSERT INTO orders (customer, placed, total) VALUES (?, ?, ?)", orders)

query = """
    SELECT name, count(*) AS orders, sum(total) AS total FROM orders JOIN customers ON customers.id = customer
    GROUP BY name ORDER BY total DESC
"""
report = [tuple(row) for row in db.execute(query)]
latest = db.execute("SELECT id, placed, total FROM orders ORDER BY placed DESC LIMIT 1").fetchone()
try:
    with db:
        db.execute("DELETE FROM orders")
        db.execute("INSERT INTO customers (name) VALUES (:name)", {"name": "Ann"})
except sqlite3.IntegrityError as error:
    message = str(error)
(left,) = db.execute("SELECT count(*) FROM orders").fetchone()
[report, latest, left, message]
