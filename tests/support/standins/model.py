"""Stands in for a model behind a command: reads a prompt on stdin, answers in JSON with what it cost, and keeps a
diary.

    model.py FOLDER WINDOW

A prompt above WINDOW tokens is rejected, as a provider would. The diary is FOLDER/diary.jsonl: a line when a prompt has
come, and one when it is answered. As long as there is a file FOLDER/hold-WORD, a prompt with WORD in it is not
answered.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from go_ent.engine.tokens import count


def note(folder: Path, **what: object) -> None:
    with (folder / "diary.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"pid": os.getpid(), **what}) + "\n")


def main() -> int:
    folder, window = Path(sys.argv[1]), int(sys.argv[2])
    prompt = sys.stdin.read()
    tokens = count(prompt)
    word = next((word for word in ("DRAFT", "REVIEW", "CLOSE") if f"{word}:" in prompt), "SUMMARY")
    note(folder, came=word, tokens=tokens)
    if tokens > window:
        note(folder, rejected=word, tokens=tokens)
        print(f"prompt is too long: {tokens} tokens > {window} maximum", file=sys.stderr)
        return 1
    while (folder / f"hold-{word}").exists():
        time.sleep(0.02)
    text = f"{word} of {tokens} tokens"
    print(json.dumps({"text": text, "in": tokens, "out": count(text), "usd": 0.02}))
    note(folder, answered=word)
    return 0


if __name__ == "__main__":
    sys.exit(main())
