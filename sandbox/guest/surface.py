"""The whitelisted surface: what guest code may import, name and touch."""

import sys

# Refused by name. The reason ends the sentence "… is not available in the sandbox: ".
_INTERPRETER = "it reaches for the interpreter, not for the task"
_NETWORK = "there is no network in the sandbox; call a tool instead"
_PROCESS = "there are no other processes in the sandbox; call a tool instead"
_TERMINAL = "there is no terminal in the sandbox; pass values as inputs"
_NATIVE = "it needs native code that the image does not have"

REFUSED_MODULES: dict[str, str] = {
    **dict.fromkeys(
        (
            "builtins code codeop importlib marshal runpy pkgutil zipimport modulefinder site sysconfig "
            "faulthandler sys.monitoring pdb bdb trace symtable pyclbr py_compile compileall dis "
            "opcode pickletools imp rlcompleter pydoc _thread _frozen_importlib _imp _ast _io _weakref guest "
            "wit_world componentize_py_types componentize_py_runtime componentize_py_async_support annotationlib "
            "RestrictedPython posix _posixsubprocess _interpreters _testcapi concurrent.interpreters ensurepip venv "
            "zipapp cProfile profile pstats"
        ).split(),
        _INTERPRETER,
    ),
    **dict.fromkeys(
        (
            "socket select selectors http.client http.server urllib.request urllib.robotparser ftplib smtplib "
            "poplib imaplib nntplib telnetlib socketserver xmlrpc xmlrpc.client xmlrpc.server webbrowser wsgiref "
            "_socket asyncio.subprocess asyncio.selector_events asyncio.unix_events"
        ).split(),
        _NETWORK,
    ),
    **dict.fromkeys("subprocess multiprocessing signal".split(), _PROCESS),
    "getpass": _TERMINAL,
}

# Not in this build of CPython. Code that can do without them may ask for them all the same.
MISSING_MODULES: dict[str, str] = {
    **dict.fromkeys(
        "bz2 lzma compression.bz2 compression.lzma compression.zstd".split(),
        "this CPython is built without it; use zlib, gzip or zipfile, or have a tool do it",
    ),
    **dict.fromkeys("ssl _ssl".split(), _NETWORK),
    **dict.fromkeys("pty fcntl resource grp pwd syslog msvcrt winreg".split(), _PROCESS),
    **dict.fromkeys("curses readline tkinter turtle idlelib termios tty".split(), _TERMINAL),
    **dict.fromkeys("ctypes _ctypes mmap".split(), _NATIVE),
}

# Offered under their own names, but only in part.
SYS_NAMES = frozenset(
    "argv byteorder copyright exc_info exception executable exit flags float_info float_repr_style "
    "api_version base_exec_prefix base_prefix builtin_module_names dont_write_bytecode exec_prefix "
    "get_int_max_str_digits "
    "getprofile getrefcount getswitchinterval gettrace is_finalizing prefix stdlib_module_names thread_info "
    "tracebacklimit warnoptions "
    "getdefaultencoding getfilesystemencoding getrecursionlimit getsizeof hash_info "
    "hexversion implementation int_info intern maxsize maxunicode path platform set_int_max_str_digits "
    "setrecursionlimit stderr stdin stdout version version_info __stdout__ "
    "__stderr__ __stdin__ __name__ __doc__".split()
)
OS_NAMES = frozenset(
    "DirEntry F_OK PathLike R_OK SEEK_CUR SEEK_END SEEK_SET W_OK X_OK access altsep chdir chmod close "
    "cpu_count curdir devnull "
    "environ error extsep fdopen fsdecode fsencode fspath fstat fsync get_terminal_size getcwd getenv getpid getppid "
    "isatty linesep listdir "
    "lstat makedirs mkdir name pardir path pathsep process_cpu_count remove removedirs rename renames replace "
    "rmdir scandir sep stat stat_result strerror terminal_size times truncate umask uname unlink urandom utime walk "
    "__name__ __doc__".split()
)
GC_NAMES = frozenset(
    "collect disable enable get_count get_stats get_threshold isenabled set_threshold __name__ __doc__".split()
)
INSPECT_NAMES = frozenset(
    "BoundArguments FullArgSpec Parameter Signature cleandoc get_annotations getdoc getfullargspec getmembers getmro "
    "getsource getsourcelines isabstract isasyncgen isasyncgenfunction isawaitable isbuiltin isclass iscoroutine "
    "iscoroutinefunction isfunction isgenerator isgeneratorfunction ismethod ismodule isroutine signature unwrap "
    "__name__ __doc__".split()
)
PARTIAL_MODULES = {"sys": SYS_NAMES, "os": OS_NAMES, "gc": GC_NAMES, "inspect": INSPECT_NAMES}

REFUSED_NAMES: dict[str, str] = {
    "exec": "write the code itself instead of running it from a string",
    "eval": "write the expression itself; for data use json.loads or ast.literal_eval",
    "compile": "write the code itself; for patterns use re.compile",
    "input": "there is nobody to ask: pass values as inputs",
    "globals": "keep your state in variables or a dict of your own",
    "locals": "keep your state in variables or a dict of your own",
    "vars": "use dataclasses.asdict, or name the attributes you need",
    "breakpoint": "use print: it is captured",
    "__import__": "use an import statement",
    "__builtins__": "the builtins are there by their names",
    "__loader__": "use an import statement",
    "__spec__": "use an import statement",
}

# Double-underscore attributes that everyday code reads; every other one is refused.
# (Defining a special method in a class is always allowed.)
HARMLESS_DUNDERS = frozenset(
    "__name__ __qualname__ __doc__ __class__ __len__ __module__ __dict__ __annotations__ __file__ __version__ __all__ "
    "__author__ __main__ __debug__ __slots__ __match_args__ __members__ __dataclass_fields__ __post_init__ __wrapped__ "
    "__init__ __new__ __del__ __repr__ __str__ __bytes__ __format__ __lt__ __le__ __eq__ __ne__ __gt__ __ge__ "
    "__hash__ __bool__ __getattr__ __setattr__ __delattr__ __getattribute__ __dir__ __get__ __set__ __delete__ "
    "__set_name__ __init_subclass__ __class_getitem__ __call__ __getitem__ __setitem__ __delitem__ __missing__ "
    "__iter__ __next__ __reversed__ __contains__ __add__ __sub__ __mul__ __matmul__ __truediv__ __floordiv__ __mod__ "
    "__divmod__ __pow__ __lshift__ __rshift__ __and__ __xor__ __or__ __radd__ __rsub__ __rmul__ __rmatmul__ "
    "__rtruediv__ __rfloordiv__ __rmod__ __rdivmod__ __rpow__ __rlshift__ __rrshift__ __rand__ __rxor__ __ror__ "
    "__iadd__ __isub__ __imul__ __imatmul__ __itruediv__ __ifloordiv__ __imod__ __ipow__ __ilshift__ __irshift__ "
    "__iand__ __ixor__ __ior__ __neg__ __pos__ __abs__ __invert__ __complex__ __int__ __float__ __index__ __round__ "
    "__trunc__ __floor__ __ceil__ __enter__ __exit__ __await__ __aiter__ __anext__ __aenter__ __aexit__ __cause__ "
    "__context__ __suppress_context__ __notes__ __traceback__ __copy__ __deepcopy__ __sizeof__ __fspath__ "
    "__length_hint__ __instancecheck__ __subclasscheck__ __prepare__ __mro_entries__ __type_params__ __origin__ "
    "__args__ __parameters__ __defaults__ __kwdefaults__ __func__ __self__ __isabstractmethod__ __abstractmethods__ "
    "__orig_bases__ __required_keys__ __optional_keys__ __total__ __bound__ __constraints__ __metadata__ __replace__ "
    "__getstate__ __setstate__ __getnewargs__ __reduce__ __reduce_ex__ __buffer__ __text_signature__ __signature__ "
    "__weakref__ __mro__ __bases__ __base__ __value__ __supertype__ "
    "__stdout__ __stderr__ __stdin__ __subclasshook__ __objclass__ __future__ __date__ __copyright__ __license__ "
    "__credits__ __email__ __maintainer__ __status__ __test__".split()
)

# Frames, code objects, generators, coroutines and tracebacks.
INTERNAL_ATTRIBUTES = frozenset(
    "tb_frame tb_next tb_lasti f_back f_builtins f_code f_generator f_globals f_locals f_lasti f_trace "
    "f_trace_lines f_trace_opcodes co_argcount co_code co_cellvars co_consts co_filename co_firstlineno co_flags "
    "co_lnotab co_freevars co_kwonlyargcount co_name co_names co_nlocals co_stacksize co_varnames co_positions "
    "co_qualname co_lines co_linetable co_exceptiontable gi_frame gi_code gi_yieldfrom gi_running gi_suspended "
    "cr_await cr_frame cr_code cr_origin cr_running cr_suspended ag_await ag_frame ag_code ag_running ag_suspended "
    "func_globals func_code func_closure im_func im_self".split()
)


# Refused wherever they are written; what else is not offered of these modules is refused when it is reached.
REFUSED_MEMBERS = {
    "gc": frozenset("callbacks garbage get_objects get_referents get_referrers set_debug".split()),
    "inspect": frozenset(
        "currentframe dis frame getclosurevars getframeinfo getgeneratorlocals getcoroutinelocals getasyncgenlocals "
        "getinnerframes getmembers_static getattr_static getmodule getouterframes stack sys trace".split()
    ),
    "sys": frozenset(
        "modules _getframe _getframemodulename _current_frames settrace setprofile meta_path path_hooks "
        "path_importer_cache addaudithook audit breakpointhook excepthook unraisablehook displayhook "
        "monitoring _xoptions "
        "setswitchinterval call_tracing _clear_type_cache _clear_internal_caches set_coroutine_origin_tracking_depth "
        "set_asyncgen_hooks getallocatedblocks activate_stack_trampoline remote_exec".split()
    ),
    "os": frozenset(
        "system popen fork forkpty kill killpg abort _exit execl execle execlp execlpe execv execve execvp "
        "execvpe posix_spawn "
        "posix_spawnp spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe putenv unsetenv environb "
        "open pipe dup dup2 "
        "read write symlink link chroot chown lchown setuid setgid wait waitpid nice openpty memfd_create sendfile "
        "register_at_fork startfile".split()
    ),
}


def _interpreter_dunders() -> frozenset[str]:
    """The double-underscore attributes that the interpreter's own objects have, but for the harmless ones."""

    def function() -> None:
        pass

    async def coroutine() -> None:
        pass

    generator = (x for x in [1])
    started = coroutine()
    objects: list[object] = [
        object,
        type,
        function,
        function.__code__,
        generator,
        started,
        "".join,
        len,
        property(),
        classmethod(lambda cls: None),
        Exception(),
    ]
    objects += [
        sys,
        staticmethod(function),
        type("", (), {}),
        type.__dict__["__dict__"],
        (lambda: function).__closure__,
    ]
    started.close()
    names = {name for found in objects for name in dir(found)}
    names |= set(
        "__builtins__ __import__ __loader__ __spec__ __path__ __cached__ __package__ __globals__ __closure__ "
        "__code__ __subclasses__ "
        "__mro__ __bases__ __base__ __self__ __build_class__ __annotate__ __annotate_func__ __dictoffset__ "
        "__weakrefoffset__ "
        "__basicsize__ __itemsize__ __flags__ __conditional_annotations__ __classdict__ __classcell__".split()
    )
    dunders = {name for name in names if name.startswith("__") and name.endswith("__")}
    return frozenset(dunders - HARMLESS_DUNDERS)


INTERPRETER_DUNDERS = _interpreter_dunders()


def refused_attribute(name: str) -> bool:
    """True for an attribute that reaches for the interpreter. A double underscore of the program's own is not one."""
    return name in INTERNAL_ATTRIBUTES or name in INTERPRETER_DUNDERS


# Attributes by which library modules hold the interpreter's own modules.
MODULE_ATTRIBUTES = frozenset("sys _sys _os builtins _builtins _imp _thread _io _abc _socket".split())


def refused_module(name: str) -> str | None:
    """Why *name* may not be imported, or None. A parent's refusal covers its submodules."""
    return _reason(name, REFUSED_MODULES)


def missing_module(name: str) -> str | None:
    """What to do without *name*, if it is known to be missing."""
    return _reason(name, MISSING_MODULES)


def _reason(name: str, modules: dict[str, str]) -> str | None:
    while name:
        if name in modules:
            return modules[name]
        name = name.rpartition(".")[0]
    return None
