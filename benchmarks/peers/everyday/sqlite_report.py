import sqlite3

connection = sqlite3.connect(":memory:")
connection.execute("create table sales (region text, amount integer)")
connection.executemany("insert into sales values (?, ?)", [("north", 10), ("south", 7), ("north", 5)])
rows = connection.execute("select region, sum(amount) from sales group by region order by region").fetchall()
connection.close()
result = rows
