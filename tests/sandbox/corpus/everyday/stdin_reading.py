# expect: ["2 lines\ninside\n", "", ["x"], [], true]
"""Scripts that read standard input find it empty, not an error."""
import sys
from contextlib import redirect_stdout
from io import StringIO


def main(stream=sys.stdin, out=None):
    lines = [line.strip() for line in stream]
    print(len(lines), "lines", file=out or sys.stdout)
    return lines


captured = StringIO()
with redirect_stdout(captured):
    main(StringIO("a\nb\n"))
    print("inside")
empty = sys.stdin.read()
[captured.getvalue(), empty, main(StringIO("x"), out=captured), sys.argv[1:], sys.getrecursionlimit() >= 500]
