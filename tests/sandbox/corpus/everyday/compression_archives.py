# expect: [["readme.txt", "data/values.csv"], true, true, null, "note", 3]
import gzip
import io
import tarfile
import zipfile

FILES = {"readme.txt": b"hello\n" * 50, "data/values.csv": b"a,b\n1,2\n"}

buffer = io.BytesIO()
with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
    for name, content in FILES.items():
        archive.writestr(name, content)

with zipfile.ZipFile(io.BytesIO(buffer.getvalue())) as archive:
    names = archive.namelist()
    smaller = archive.getinfo("readme.txt").compress_size < 300
    same = all(archive.read(name) == content for name, content in FILES.items())
    bad = archive.testzip()

tar_bytes = io.BytesIO()
with tarfile.open(fileobj=tar_bytes, mode="w:gz") as tar:
    info = tarfile.TarInfo("note.txt")
    info.size = 4
    tar.addfile(info, io.BytesIO(b"note"))
tar_bytes.seek(0)
with tarfile.open(fileobj=tar_bytes) as tar:
    note = tar.extractfile("note.txt").read().decode()

with gzip.open("log.gz", "wt") as file:
    file.write("line\n" * 3)
with gzip.open("log.gz", "rt") as file:
    lines = file.readlines()
[names, smaller, same, bad, note, len(lines)]
