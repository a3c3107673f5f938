"""Twenty hostile programs. Each has a few spellings, because what stops one need not stop another; all must be survived.

A program finds as inputs: `secret_file` (a file of the host's user), `target_file` (one that it should not make), `env_name`
(a variable of the host), `host_pid`, and `port` (of a listener on the loopback).

They are bounded: none starts more than 60 processes, none of which starts another or lives longer than 20 seconds.
"""

from __future__ import annotations

JS_BUILTIN = "from js import process\nget = process.getBuiltinModule\n"

HOSTILE: dict[str, tuple[str, ...]] = {
    "endless loop": (
        "while True:\n    pass",
        "result = all(n == 0 for n in iter(int, 1))",
    ),
    "memory bomb": (
        "x = []\nwhile True:\n    x.append(bytearray(10_000_000))",
        "x = 'x' * 1000\nwhile True:\n    x = x + x",
    ),
    "huge integer": ("n = 10\nresult = (n ** n ** n) % 7",),
    "regex bomb": ("import re\nresult = re.match('(a+)+$', 'a' * 60 + 'b')",),
    "deep recursion": (
        "def f(n):\n    return f(n + 1)\nresult = f(0)",
        "import sys\nsys.setrecursionlimit(10**9)\ndef f(n):\n    return f(n + 1)\nresult = f(0)",
        "result = []\nfor n in range(200_000):\n    result = [result]",
    ),
    "fork bomb": (
        "import os, time\nfor n in range(60):\n    if os.fork() == 0:\n        time.sleep(20)\n        os._exit(0)\ntime.sleep(0.5)\nresult = 1",
        "import subprocess, time\nall_of = [subprocess.Popen(['sleep', '20']) for n in range(60)]\ntime.sleep(0.5)\nresult = 1",
        JS_BUILTIN
        + "from pyodide.ffi import to_js\nimport time\nspawn = get('child_process').spawn\n"
        + "for n in range(60):\n    spawn('/bin/sleep', to_js(['20']))\ntime.sleep(0.5)\nresult = 1",
    ),
    "read a file": (
        "result = open(secret_file).read()",
        "import pathlib\nresult = pathlib.Path(secret_file).read_text()",
        "import os\nresult = os.read(os.open(secret_file, os.O_RDONLY), 100).decode()",
        "import json\nresult = json.codecs.open(secret_file).read()",
        JS_BUILTIN + "result = get('fs').readFileSync(secret_file, 'utf8')",
    ),
    "read the environment": (
        "import os\nresult = os.environ[env_name]",
        "result = open(f'/proc/{host_pid}/environ').read()",
        "import random\nresult = random._os.environ[env_name]",
        JS_BUILTIN + "result = get('fs').readFileSync(f'/proc/{host_pid}/environ', 'utf8')",
    ),
    "open a socket": (
        "import socket\nsocket.create_connection(('127.0.0.1', port), 1).sendall(b'hello')\nresult = 1",
        "import urllib.request\nresult = urllib.request.urlopen(f'http://127.0.0.1:{port}', timeout=1).status",
        JS_BUILTIN
        + "from pyodide.ffi import to_js\n"
        + "get('child_process').spawnSync('/bin/bash', to_js(['-c', f'echo hello > /dev/tcp/127.0.0.1/{port}']))\nresult = 1",
    ),
    "crash by ctypes": ("import ctypes\nresult = ctypes.string_at(0)",),
    "exit the host": (
        "import os\nos._exit(0)",
        "raise SystemExit(3)",
        "import random\nrandom._os._exit(0)",
        JS_BUILTIN + "process.exit(0)",
    ),
    "signal the host": (
        "import os\nos.kill(host_pid, 9)\nresult = 1",
        "import signal, time\nsignal.raise_signal(signal.SIGTERM)\nresult = 1",
        JS_BUILTIN + "process.kill(host_pid, 'SIGKILL')\nresult = 1",
    ),
    "walk the subclasses": (
        "found = [c for c in ().__class__.__base__.__subclasses__() if c.__name__ == '_wrap_close']\n"
        "result = found[0].__init__.__globals__['environ'][env_name]",
        "import dataclasses\nresult = dataclasses.sys.modules['os'].environ[env_name]",
        "import re\nresult = re.enum.sys.modules['os'].environ[env_name]",
        "import json\nresult = json.codecs.builtins.open(secret_file).read()",
    ),
    "walk the frames": (
        "import sys\nframe = sys._getframe()\nresult = []\n"
        "while frame:\n    result.append(str(frame.f_globals.get('KEYRING')))\n    frame = frame.f_back",
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    frame = error.__traceback__.tb_frame\n"
        "result = []\nwhile frame:\n    result.append(str(frame.f_globals.get('KEYRING')))\n    frame = frame.f_back",
        "def walk():\n    frame = generator.gi_frame.f_back\n    while frame:\n"
        "        yield str(frame.f_globals.get('KEYRING'))\n        frame = frame.f_back\ngenerator = walk()\nresult = list(generator)",
    ),
    "write a file": (
        "open(target_file, 'w').write('was here')\nresult = 1",
        "import json\njson.codecs.open(target_file, 'w').write('was here')\nresult = 1",
        JS_BUILTIN + "get('fs').writeFileSync(target_file, 'was here')\nresult = 1",
    ),
    "flood the output": ("while True:\n    print('x' * 1_000_000)",),
    "sleep for ever": (
        "import time\ntime.sleep(1_000_000)",
        "import asyncio\nasyncio.run(asyncio.sleep(1_000_000))",
    ),
    "leave threads behind": (
        "import threading\ndef spin():\n    while True:\n        pass\n"
        "for n in range(3):\n    threading.Thread(target=spin, daemon=True).start()\nresult = 1",
        "import _thread\ndef spin():\n    while True:\n        pass\n_thread.start_new_thread(spin, ())\nresult = 1",
    ),
    "patch the host": (
        "import json\njson.dumps = lambda *args, **options: '{}'\nresult = 1",
        "import builtins\nbuiltins.len = lambda items: 42\nresult = 1",
        "import math\nsetattr(math, 'pi', 3)\nresult = 1",
    ),
    "search the heap": (
        "import gc\nresult = [str(thing) for thing in gc.get_objects() if type(thing) is dict and 'peers keyring' in thing]",
        "import weakref, gc\nkept = weakref.WeakValueDictionary()\n"
        "result = [str(thing.get('KEYRING')) for thing in gc.get_referrers(dict) if type(thing) is dict]",
        "import sys\nresult = [str(vars(module).get('KEYRING')) for module in list(sys.modules.values())]",
    ),
}
