# expect: true
# stdout: "+--------------------------------------+\n| It was a bright cold day in spring,  |\n| and the clocks were striking one     |\n| after the other. Nobody in the       |\n| street looked up; they were all used |\n| to it by now.                        |\n+--------------------------------------+\n> a\n> b\nThe quick...\nleft    |   3.142|+7|0xff\n   mid    |12,345|'q'\n"
import shutil
import textwrap

BODY = """
    It was a bright cold day in spring, and the clocks were striking one after the other.
    Nobody in the street looked up; they were all used to it by now.
"""


def box(text, width=40):
    lines = textwrap.wrap(textwrap.dedent(text).strip(), width - 4)
    rule = "+" + "-" * (width - 2) + "+"
    yield rule
    for line in lines:
        yield f"| {line.ljust(width - 4)} |"
    yield rule


for line in box(BODY):
    print(line)
print(textwrap.indent("a\nb", "> "))
print(textwrap.shorten("The quick brown fox jumps", width=16, placeholder="..."))
print("%-8s|%8.3f|%+d|%#x" % ("left", 3.14159, 7, 255))
print("{:^10}|{:>6,}|{!r}".format("mid", 12345, "q"))
columns = shutil.get_terminal_size().columns
columns > 0
