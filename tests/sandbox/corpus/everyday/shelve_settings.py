# expect: [{"theme": "dark", "recent": ["a.txt", "b.txt"]}, "dbm.sqlite3", ["one", "two"], false]
import dbm
import shelve

with shelve.open("settings") as settings:
    settings["theme"] = "dark"
    settings["recent"] = ["a.txt"]

with shelve.open("settings", writeback=True) as settings:
    settings["recent"].append("b.txt")

with shelve.open("settings", flag="r") as settings:
    saved = dict(settings)

with dbm.open("words", "c") as words:
    words["1"], words["2"] = "one", "two"
    found = sorted(words[key].decode() for key in words.keys())

[saved, dbm.whichdb("settings"), found, "3" in found]
