"""The run's private folder: files in the guest's own memory, reached by relative names with the ordinary functions."""

import builtins
import errno
import io
import os
import shutil
import stat
import tarfile
import tempfile
import time
import tokenize
from collections.abc import Iterator
from typing import Any

from guest.policy import HOME, Refused, inside_folder, outside_folder

MAX_FILES = 1000
MAX_NAME = 255  # of characters, folders included: the host takes no longer ones


def _error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)


def _broken(name: str) -> bool:
    """Whether a name is no valid Unicode, and so no name at all to the host."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return True
    return False


class Node:
    """One file's bytes. `changed` stays False for an input that was only read: the host need not get it back."""

    __slots__ = ("changed", "data", "mtime")

    def __init__(self, data: bytes = b"", changed: bool = True) -> None:
        self.data = bytearray(data)
        self.changed = changed
        self.mtime = time.time()

    def touch(self) -> None:
        self.changed = True
        self.mtime = time.time()


_descriptors: dict[int, "MemoryFile"] = {}  # open files by number, as `Path.touch` and `tempfile.mkstemp` use them


class Folder:
    def __init__(self) -> None:
        self.reset({}, None)

    def reset(self, files: dict[str, bytes], limit: int | None) -> None:
        self.limit = limit
        self.cwd = ""
        self.nodes: dict[str, Node] = {}
        self.folders: set[str] = {""}
        self.databases: dict[Node, Any] = {}  # files that are open as databases (`databases.py`)
        _descriptors.clear()
        for name, data in files.items():
            self.nodes[name] = Node(data, changed=False)
            self._add_parents(name)

    def _add_parents(self, name: str) -> None:
        while name:
            name = name.rpartition("/")[0]
            self.folders.add(name)

    def key(self, path: Any) -> str | None:
        """The folder-relative form of a path: 'a/b', '' for the folder itself, None for one that leads outside."""
        text = os.fsdecode(path)
        if "\x00" in text:
            raise ValueError("embedded null byte")
        return inside_folder(text, self.cwd)

    def find(self, path: Any) -> str:
        """The key of something that exists."""
        key = self.key(path)
        if key is None or (key not in self.nodes and key not in self.folders):
            raise _error(errno.ENOENT, os.fsdecode(path))
        return key

    def place(self, path: Any) -> str:
        """The key of something that may be made: its folder exists, and it does not lead outside."""
        key = self.key(path)
        if key is None:
            raise _error(errno.EACCES, os.fsdecode(path))
        if len(key) > MAX_NAME:
            raise _error(errno.ENAMETOOLONG, f"{os.fsdecode(path)[:MAX_NAME]}…")
        if "\\" in key or (not key.isascii() and _broken(key)):
            raise _error(errno.EILSEQ, os.fsdecode(path))
        if key.rpartition("/")[0] not in self.folders:
            raise _error(errno.ENOENT, os.fsdecode(path))
        return key

    def room(self, more: int) -> None:
        if (
            self.limit is not None
            and more > 0
            and sum(len(node.data) for node in self.nodes.values()) + more > self.limit
        ):
            raise OSError(errno.ENOSPC, f"the run's files may hold {self.limit} bytes in all (max_file_bytes)")

    def add(self, stem: str, ending: str, data: bytes) -> str:
        """A new file, beside those that there are: its name."""
        name, number = f"{stem}.{ending}", 2
        while name in self.nodes or name in self.folders:
            name, number = f"{stem}-{number}.{ending}", number + 1
        if len(self.nodes) >= MAX_FILES:
            raise OSError(errno.ENOSPC, f"a run may have {MAX_FILES} files at most")
        self.room(len(data))
        self.nodes[name] = Node(data)
        return name

    def save_databases(self, end: bool = False) -> None:
        """Have the files that are open as databases hold what was committed to them."""
        for database in list(self.databases.values()):
            database.end() if end else database.save()


folder = Folder()


class MemoryFile(io.RawIOBase):
    """A file of the folder, open."""

    def __init__(self, node: Node, path: str, mode: str) -> None:
        self.node = node
        self.name = path
        self.mode = mode
        self._read = "r" in mode or "+" in mode
        self._write = mode[0] in "wax" or "+" in mode
        self._append = "a" in mode
        self._at = len(node.data) if self._append else 0

    def readable(self) -> bool:
        return self._read

    def writable(self) -> bool:
        return self._write

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        for number, file in _descriptors.items():
            if file is self:
                return number
        return _add_descriptor(self)

    def close(self) -> None:
        for number in [number for number, file in _descriptors.items() if file is self]:
            del _descriptors[number]
        super().close()

    def readinto(self, buffer: Any) -> int:
        if not self._read:
            raise io.UnsupportedOperation("not readable")
        chunk = self.node.data[self._at : self._at + len(buffer)]
        buffer[: len(chunk)] = chunk
        self._at += len(chunk)
        return len(chunk)

    def write(self, data: Any) -> int:
        if not self._write:
            raise io.UnsupportedOperation("not writable")
        size = len(data)
        node = self.node
        if self._append:
            self._at = len(node.data)
        folder.room(self._at + size - len(node.data))
        if self._at > len(node.data):
            node.data.extend(bytes(self._at - len(node.data)))
        node.data[self._at : self._at + size] = data
        node.touch()
        self._at += size
        return size

    def seek(self, offset: int, whence: int = 0) -> int:
        base = (0, self._at, len(self.node.data))[whence]
        if base + offset < 0:
            raise OSError(errno.EINVAL, "Invalid argument")
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def truncate(self, size: int | None = None) -> int:
        size = self._at if size is None else size
        data = self.node.data
        folder.room(size - len(data))
        if size < len(data):
            del data[size:]
        else:
            data.extend(bytes(size - len(data)))
        self.node.touch()
        return size


def open_file(
    file: Any,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Any = None,
) -> Any:
    """`open`, for the run's own files."""
    if isinstance(file, int):
        if file not in _descriptors:
            raise Refused(
                "open of a file descriptor is refused: only the run's own files can be opened", "use a relative name"
            )
        return _wrap(_descriptor(file), mode, buffering, encoding, errors, newline)
    path = os.fsdecode(file)
    if path == os.devnull:
        return _wrap(MemoryFile(Node(), path, mode.replace("t", "")), mode, buffering, encoding, errors, newline)
    outside = outside_folder(path, folder.cwd)
    if outside is not None:
        raise Refused(*outside)
    kinds = set(mode)
    if len(mode) != len(kinds) or kinds - set("rwxabt+") or len(kinds & set("rwxa")) != 1 or {"b", "t"} <= kinds:
        raise ValueError(f"invalid mode: {mode!r}")
    if folder.databases:
        folder.save_databases()
    key = folder.find(path) if "r" in mode else folder.place(path)
    if key in folder.folders:
        raise _error(errno.EISDIR, path)
    node = folder.nodes.get(key)
    if node is None:
        if len(folder.nodes) >= MAX_FILES:
            raise OSError(errno.ENOSPC, f"a run may have {MAX_FILES} files")
        node = folder.nodes[key] = Node()
    elif "x" in mode:
        raise _error(errno.EEXIST, path)
    elif "w" in mode:
        node.data.clear()
        node.touch()
    return _wrap(MemoryFile(node, path, mode.replace("t", "")), mode, buffering, encoding, errors, newline)


def _wrap(
    raw: MemoryFile, mode: str, buffering: int, encoding: str | None, errors: str | None, newline: str | None
) -> Any:
    binary = "b" in mode
    if binary and buffering == 0:
        return raw
    buffered: Any
    if "+" in mode:
        buffered = io.BufferedRandom(raw)
    elif "r" in mode:
        buffered = io.BufferedReader(raw)
    else:
        buffered = raw  # memory needs no buffer, and a full folder is noticed by the write that fills it
    if binary:
        return buffered
    text: Any = io.TextIOWrapper(
        buffered, encoding or "utf-8", errors, newline, line_buffering=buffering == 1, write_through=True
    )
    text.mode = mode
    return text


def _stat(path: Any, *, dir_fd: Any = None, follow_symlinks: bool = True) -> os.stat_result:
    if folder.databases:
        folder.save_databases()
    if isinstance(path, int):
        node: Node | None = _descriptor(path).node
        key = ""
    else:
        key = folder.find(path)
        node = folder.nodes.get(key)
    kind = stat.S_IFREG | 0o644 if node is not None else stat.S_IFDIR | 0o755
    size = len(node.data) if node is not None else 0
    at = int(node.mtime if node is not None else time.time())
    return os.stat_result((kind, hash(key) & 0xFFFFFFFF, 1, 1, 0, 0, size, at, at, at))


def _children(path: Any) -> list[str]:
    key = folder.find(path)
    if key in folder.nodes:
        raise _error(errno.ENOTDIR, os.fsdecode(path))
    prefix = f"{key}/" if key else ""
    return sorted(
        {
            name[len(prefix) :].partition("/")[0]
            for name in (*folder.nodes, *folder.folders)
            if name.startswith(prefix) and name != key
        }
        - {""}
    )


class Entry:
    """`os.DirEntry` of the folder."""

    def __init__(self, parent: str, name: str) -> None:
        self.name = name
        self.path = os.path.join(parent, name)

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return _stat(self.path)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return stat.S_ISDIR(self.stat().st_mode)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return not self.is_dir()

    def is_symlink(self) -> bool:
        return False

    def is_junction(self) -> bool:
        return False

    def inode(self) -> int:
        return self.stat().st_ino


class _Scan:
    def __init__(self, entries: list[Entry]) -> None:
        self.entries = iter(entries)

    def __iter__(self) -> Iterator[Entry]:
        return self

    def __next__(self) -> Entry:
        return next(self.entries)

    def __enter__(self) -> "_Scan":
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def close(self) -> None:
        pass


def _scandir(path: Any = ".") -> _Scan:
    text = os.fsdecode(path)
    return _Scan([Entry(text, name) for name in _children(path)])


def _mkdir(path: Any, mode: int = 0o777, *, dir_fd: Any = None) -> None:
    key = folder.place(path)
    if key in folder.nodes or key in folder.folders:
        raise _error(errno.EEXIST, os.fsdecode(path))
    if len(folder.folders) >= MAX_FILES:
        raise OSError(errno.ENOSPC, f"a run may have {MAX_FILES} folders")
    folder.folders.add(key)


def _remove(path: Any, *, dir_fd: Any = None) -> None:
    key = folder.find(path)
    if key not in folder.nodes:
        raise _error(errno.EISDIR, os.fsdecode(path))
    del folder.nodes[key]


def _rmdir(path: Any, *, dir_fd: Any = None) -> None:
    if _children(path):
        raise _error(errno.ENOTEMPTY, os.fsdecode(path))
    folder.folders.discard(folder.key(path) or "/")  # never the folder itself


def _rename(src: Any, dst: Any, *, src_dir_fd: Any = None, dst_dir_fd: Any = None) -> None:
    source, target = folder.find(src), folder.place(dst)
    if source in folder.nodes:
        if target in folder.folders:
            raise _error(errno.EISDIR, os.fsdecode(dst))
        node = folder.nodes[target] = folder.nodes.pop(source)
        node.changed = True
        return
    if target in folder.nodes or target in folder.folders:
        raise _error(errno.EEXIST, os.fsdecode(dst))
    inner = [name for name in folder.nodes if name.startswith(f"{source}/")]
    if any(len(target + name[len(source) :]) > MAX_NAME for name in inner):
        raise _error(errno.ENAMETOOLONG, os.fsdecode(dst))
    for name in inner:
        node = folder.nodes[target + name[len(source) :]] = folder.nodes.pop(name)
        node.changed = True
    for name in [name for name in folder.folders if name == source or name.startswith(f"{source}/")]:
        folder.folders.discard(name)
        folder.folders.add(target + name[len(source) :])


def _chdir(path: Any) -> None:
    key = folder.find(path)
    if key in folder.nodes:
        raise _error(errno.ENOTDIR, os.fsdecode(path))
    folder.cwd = key


def _access(path: Any, mode: int, **_: Any) -> bool:
    try:
        folder.find(path)
    except OSError:
        return False
    return True


def _utime(path: Any, times: Any = None, **kwargs: Any) -> None:
    node = folder.nodes.get(folder.find(path))
    if node is not None:
        node.mtime = times[1] if times else time.time()


def _chmod(path: Any, mode: int, **kwargs: Any) -> None:
    folder.find(path)


_FIRST = 1000


def _descriptor(number: int) -> MemoryFile:
    if number not in _descriptors:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return _descriptors[number]


def _open_descriptor(path: Any, flags: int, mode: int = 0o777, *, dir_fd: Any = None) -> int:
    access = flags & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR)
    if flags & os.O_CREAT:
        exists = (key := folder.place(path)) in folder.nodes
        if exists and flags & os.O_EXCL:
            raise _error(errno.EEXIST, os.fsdecode(path))
        kind = "w" if not exists or flags & os.O_TRUNC else "a"
        kind = "r" if kind == "a" and access == os.O_RDONLY else kind
        del key
    else:
        kind = "r" if access == os.O_RDONLY else "r+"
    raw = open_file(path, f"{kind}b" if "+" in kind or kind == "r" else f"{kind}+b", 0)
    return _add_descriptor(raw)


def _add_descriptor(file: MemoryFile) -> int:
    number = max(_descriptors, default=_FIRST) + 1
    _descriptors[number] = file
    return number


def _close_descriptor(number: int) -> None:
    _descriptor(number)
    del _descriptors[number]


def _sync(file: Any) -> None:
    _descriptor(file if isinstance(file, int) else file.fileno())


def _truncate(path: Any, length: int) -> None:
    if isinstance(path, int):
        _descriptor(path).truncate(length)
        return
    with open_file(path, "r+b", 0) as file:
        file.truncate(length)


def _expanduser(path: Any) -> Any:
    path = os.fspath(path)
    home = HOME if isinstance(path, str) else HOME.encode()
    return home + path[1:] if path[:2] in ("~", "~/", b"~", b"~/") else path


class _Temporary:
    """`NamedTemporaryFile`: a file of the folder that is removed when it is closed."""

    def __init__(
        self,
        mode: str = "w+b",
        buffering: int = -1,
        encoding: Any = None,
        newline: Any = None,
        suffix: Any = None,
        prefix: Any = None,
        dir: Any = None,
        delete: bool = True,
        *,
        errors: Any = None,
        delete_on_close: bool = True,
    ) -> None:
        name = f"{prefix or 'tmp'}{next(tempfile._get_candidate_names())}{suffix or ''}"  # type: ignore[attr-defined]
        self.name = os.path.join(dir, name) if dir else name
        self.delete = delete
        self.file = open_file(self.name, mode, buffering, encoding, errors, newline)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def __iter__(self) -> Any:
        return iter(self.file)

    def __enter__(self) -> "_Temporary":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self.file.close()
        if self.delete:
            folder.nodes.pop(folder.key(self.name) or "", None)


def install() -> None:
    """Point the standard library's file functions at the folder. Done once, before the snapshot."""
    real: Any = os
    real.stat = real.lstat = _stat
    real.listdir = lambda path=".": _children(path)
    real.scandir = _scandir
    real.mkdir = _mkdir
    real.remove = real.unlink = _remove
    real.rmdir = _rmdir
    real.rename = real.replace = _rename
    real.getcwd = lambda: f"{HOME}/{folder.cwd}".rstrip("/")
    real.chdir = _chdir
    real.access = _access
    real.utime = _utime
    real.chmod = _chmod
    real.open = _open_descriptor
    real.close = _close_descriptor
    real.fstat = _stat
    real.fsync = _sync
    real.truncate = real.ftruncate = _truncate
    real.fdopen = open_file
    real.read = lambda number, size: _descriptor(number).read(size)
    real.write = lambda number, data: _descriptor(number).write(data)
    del real.link  # the library does without
    real.path.expanduser = _expanduser
    real.environ.clear()
    real.get_terminal_size = lambda fd=1: os.terminal_size((80, 24))
    real.getpid = real.getppid = lambda: 1
    real.isatty = lambda fd: False
    real.umask = lambda mask: 0o022
    real.cpu_count = lambda: 1
    library: Any = builtins
    library.open = open_file
    library = io
    library.open = open_file
    # Modules that took hold of the original while they were imported.
    library = tarfile
    library.bltn_open = open_file
    library = tokenize
    library._builtin_open = open_file
    library = shutil
    library._use_fd_functions = False
    library.get_terminal_size = lambda fallback=(80, 24): os.terminal_size(fallback)
    library = tempfile
    library.tempdir = "."
    library.NamedTemporaryFile = library.TemporaryFile = _Temporary
