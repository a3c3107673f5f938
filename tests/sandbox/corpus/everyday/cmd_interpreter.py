# expect: [7, "unknown: fly"]
# stdout: "added 3\nadded 4\n"
import cmd


class Shell(cmd.Cmd):
    def __init__(self):
        super().__init__()
        self.total, self.last = 0, ""

    def do_add(self, line):
        """add N"""
        self.total += int(line)
        print("added", line)

    def default(self, line):
        self.last = f"unknown: {line}"


shell = Shell()
for line in ("add 3", "add 4", "fly"):
    shell.onecmd(line)
[shell.total, shell.last]
