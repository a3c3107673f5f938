# expect: [{"debug": true, "workers": 9, "home": "."}, "x.txt", true, "c", true, true, "a/b", true, true, true]
import os
import platform
import sys
import time
from dataclasses import dataclass


@dataclass
class Settings:
    debug: bool = False
    workers: int = 4
    home: str = "."

    @classmethod
    def from_env(cls, env=os.environ):
        return cls(
            debug=env.get("APP_DEBUG", "0") == "1",
            workers=int(env.get("APP_WORKERS", cls.workers)),
            home=os.getenv("APP_HOME", os.curdir),
        )


os.environ["APP_DEBUG"] = "1"
os.environ.setdefault("APP_WORKERS", "9")
started = time.monotonic()
settings = Settings.from_env()
path = os.path.normpath(os.path.join(settings.home, "data", "..", "x.txt"))
[
    settings,
    path,
    os.path.isabs(os.path.abspath("x")),
    os.path.split("a/b/c")[1],
    time.monotonic() >= started,
    time.time() > 0,
    os.sep.join(["a", "b"]),
    isinstance(platform.python_version(), str),
    sys.byteorder in ("little", "big"),
    os.getcwd() == os.path.abspath("."),
]
