# expect: [{"theme": "dark"}, "3", ["settings.json"], false]
"""Paths built from __file__, the working folder and abspath lead to the run's own files."""
import json
import os
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent
DATA = BASE_DIR / "data"


def save(name, value):
    DATA.mkdir(exist_ok=True)
    target = DATA / f"{name}.json"
    target.write_text(json.dumps(value))
    return target


def load(name):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", name + ".json")) as file:
        return json.load(file)


save("settings", {"theme": "dark"})
counter = os.path.join(os.getcwd(), "counter.txt")
for _ in range(3):
    count = int(Path(counter).read_text()) if os.path.exists(counter) else 0
    with open(counter, "w") as file:
        file.write(str(count + 1))
here = sorted(path.name for path in (Path.cwd() / "data").iterdir())
[load("settings"), Path("counter.txt").read_text(), here, (Path.cwd() / "nothing.txt").exists()]
