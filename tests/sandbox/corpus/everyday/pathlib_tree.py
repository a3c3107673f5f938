# expect: [{"main.py": 1, "util.py": 2}, {"version": [1, 2]}, ["data.json", "log.old", "src/main.py", "src/util.py"], false, [".tar", ".gz"], "c.tar", "a/b/x"]
import json
from pathlib import Path

root = Path("project")
(root / "src").mkdir(parents=True, exist_ok=True)
(root / "src" / "main.py").write_text("print('hi')\n")
(root / "src" / "util.py").write_text("x = 1\ny = 2\n")
(root / "data.json").write_text(json.dumps({"version": [1, 2]}))


def count_lines(folder):
    return {path.name: len(path.read_text().splitlines()) for path in sorted(folder.glob("**/*.py"))}


with (root / "log.txt").open("w") as log:
    log.write("one\n")
    log.writelines(["two\n", "three\n"])

data = json.loads((root / "data.json").read_bytes())
(root / "log.txt").rename(root / "log.old")
names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
(root / "log.old").unlink()
parts = Path("a/b/c.tar.gz")
[count_lines(root), data, names, (root / "log.old").exists(), parts.suffixes, parts.stem, str(parts.with_suffix(".zip").parent / "x")]
