# expect: ["TO BOTH!\n", true, true]
# stdout: "to both!\nonly here | 1 | 2\n"
import sys

sys.stdout.reconfigure(encoding="utf-8", errors="replace")


class Tee:
    def __init__(self, *streams):
        self.streams = streams

    def write(self, text):
        for stream in self.streams:
            stream.write(text)

    def flush(self):
        for stream in self.streams:
            stream.flush()


class Upper:
    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text.upper()

    def flush(self):
        pass


copy, original = Upper(), sys.stdout
sys.stdout = Tee(original, copy)
try:
    print("to both", end="!\n", flush=True)
finally:
    sys.stdout = original
print("only here", 1, 2, sep=" | ")
[copy.text, sys.stdout.writable(), sys.stdout is original]
