# expect: [["img/logo.svg", "index.html"], "<svg/>", false, true]
import os
import shutil
import zipfile
from pathlib import Path

source = Path("report")
(source / "img").mkdir(parents=True)
(source / "index.html").write_text("<h1>Report</h1>\n")
(source / "img" / "logo.svg").write_text("<svg/>")


def zip_folder(folder, target):
    with zipfile.ZipFile(target, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        for parent, _, names in os.walk(folder):
            for name in sorted(names):
                path = os.path.join(parent, name)
                archive.write(path, arcname=os.path.relpath(path, folder))
    return target


def contents(path):
    with zipfile.ZipFile(path) as archive:
        return sorted(name for name in archive.namelist() if not name.endswith("/"))


by_hand = contents(zip_folder("report", "report.zip"))
with zipfile.ZipFile("report.zip") as archive:
    archive.extractall("unpacked")
shutil.rmtree("report")
[by_hand, Path("unpacked/img/logo.svg").read_text(), source.exists(), zipfile.is_zipfile("report.zip")]
