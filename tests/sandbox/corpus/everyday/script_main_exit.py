# expect: null
# stdout: "lines words\n2 3\ndone\n"
#!/usr/bin/env python3
"""usage: wc [FILE]..."""
import sys


def main(argv):
    if len(argv) > 1:
        sys.stderr.write("too many arguments\n")
        return 2
    sys.stdout.write("lines words\n")
    text = "one two\nthree\n"
    sys.stdout.write(f"{text.count(chr(10))} {len(text.split())}\n")
    sys.stdout.flush()
    print("done", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
