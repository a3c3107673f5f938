"""What is logged may quote a client, a server or a file: it reaches no handler before it is one short line that a
terminal can't obey.

This is done where records are made, so that it holds for every logger and every handler, those of libraries too.
"""

from __future__ import annotations

import logging
import traceback
from types import TracebackType
from typing import Any

MOST = 1_000  # characters of a message
MOST_TRACE = 8_000
OURS = ("go_ent", "__main__")
ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def shown(text: str, most: int = MOST, *, lines: bool = False) -> str:
    """Text with everything escaped that is not printable, and its middle cut out where it is long. With *lines*,
    those stay.
    """
    if len(text) > most:
        text = f"{text[: most // 2]} … [{len(text) - most} characters cut] … {text[len(text) - most // 2 :]}"
    keep = "\n" if lines else ""
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode() for char in text
    )


def keep_plain() -> None:
    """From now on, make every record of this process plain. Idempotent."""
    if logging.getLogRecordFactory() is not _plain_record:
        logging.setLogRecordFactory(_plain_record)


def take_over(*names: str) -> None:
    """Have these loggers of libraries write where everything else goes, instead of to handlers of their own."""
    for name in names:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(logging.NOTSET)


def _plain_record(*args: Any, **options: Any) -> logging.LogRecord:
    record = logging.LogRecord(*args, **options)
    try:
        message = record.getMessage()
    except Exception as error:  # a library's mistake: the arguments do not fit the message
        message = f"{record.msg} ({type(error).__name__} in its arguments)"
    if record.exc_info and record.exc_info[0] is not None:
        if record.name.partition(".")[0] in OURS:
            record.exc_text = shown(
                "".join(traceback.format_exception(*record.exc_info)).rstrip(), MOST_TRACE, lines=True
            )
        else:  # mostly a client's mistake; if it is not, the place is what helps
            message += _in_brief(record.exc_info)
        record.exc_info = None
    if record.stack_info:
        record.stack_info = shown(record.stack_info, MOST_TRACE, lines=True)
    record.msg, record.args = shown(message), None
    return record


def _in_brief(info: ExcInfo) -> str:
    kind, error, trace = info
    frames = traceback.extract_tb(trace)
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    try:
        said = str(error)
    except Exception:
        said = "?"
    return f": {kind.__name__}: {shown(said, MOST // 2)}{where}"
