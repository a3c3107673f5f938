"""Names of a run's files: relative, and never leading out of its folder."""

from __future__ import annotations

import re

FILE_NAME = re.compile(r"(?!\.{1,2}(/|$))[^/\\\x00]+(/(?!\.{1,2}(/|$))[^/\\\x00]+)*")
MAX_NAME = 255
MAX_FILES = 1000
