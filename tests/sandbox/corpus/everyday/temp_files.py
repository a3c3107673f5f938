# expect: [3, ["Apple", "banana", "pear"], ["copy.txt", "in.txt", "out.txt"], false, "temporary"]
import shutil
import tempfile
from pathlib import Path


def sort_file(source, target):
    lines = sorted(Path(source).read_text().splitlines(), key=str.casefold)
    Path(target).write_text("\n".join(lines) + "\n")
    return len(lines)


with tempfile.TemporaryDirectory() as folder:
    work = Path(folder)
    (work / "in.txt").write_text("pear\nApple\nbanana\n")
    count = sort_file(work / "in.txt", work / "out.txt")
    shutil.copy(work / "out.txt", work / "copy.txt")
    content = (work / "copy.txt").read_text().split()
    inside = sorted(path.name for path in work.iterdir())

with tempfile.NamedTemporaryFile("w+", suffix=".txt") as file:
    file.write("temporary")
    file.seek(0)
    text = file.read()

[count, content, inside, work.exists(), text]
