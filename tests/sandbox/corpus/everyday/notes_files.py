# expect: [["buy milk", "write tests é"], null, {"dreams.txt": 6, "todo.txt": 24}, 3, "notes/dreams.txt", ["a/b.tar", ".gz"], "todo.txt"]
"""A tiny note book in files, with open()."""
import os


def add(name, text):
    os.makedirs("notes", exist_ok=True)
    with open(os.path.join("notes", name + ".txt"), "a", encoding="utf-8") as file:
        print(text, file=file)


def read(name):
    path = f"notes/{name}.txt"
    if not os.path.exists(path):
        return None
    with open(path) as file:
        return [line.rstrip("\n") for line in file]


add("todo", "buy milk")
add("todo", "write tests é")
add("ideas", "sleep")
os.rename("notes/ideas.txt", "notes/dreams.txt")
listing = {name: os.path.getsize(os.path.join("notes", name)) for name in sorted(os.listdir("notes"))}
with open("notes/todo.txt", "rb") as file:
    file.seek(-3, os.SEEK_END)
    tail = file.read()
os.remove("notes/dreams.txt")
try:
    open("notes/dreams.txt")
except FileNotFoundError as error:
    gone = error.filename
[read("todo"), read("nothing"), listing, len(tail), gone, os.path.splitext("a/b.tar.gz"), os.path.basename("notes/todo.txt")]
