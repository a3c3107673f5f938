# expect: [["buy milk", "call Bob"], 1, true, ["notes.db"], "rest"]
import os
import sqlite3
from contextlib import closing
from pathlib import Path

PATH = Path("notes.db")


def connect():
    db = sqlite3.connect(PATH)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT, done INTEGER DEFAULT 0)")
    return db


with closing(connect()) as db, db:
    db.executemany("INSERT INTO notes (text) VALUES (?)", [("buy milk",), ("call Bob",), ("rest",)])

with closing(connect()) as db:
    db.execute("UPDATE notes SET done = 1 WHERE text = ?", ("rest",))
    db.commit()
    db.execute("DELETE FROM notes")  # never committed

with closing(sqlite3.connect(f"file:{PATH}?mode=ro", uri=True)) as db:
    todo = [text for (text,) in db.execute("SELECT text FROM notes WHERE NOT done ORDER BY id")]
    done = db.execute("SELECT count(*), max(text) FROM notes WHERE done").fetchone()

[todo, done[0], PATH.read_bytes().startswith(b"SQLite format 3"), os.listdir(), done[1]]
