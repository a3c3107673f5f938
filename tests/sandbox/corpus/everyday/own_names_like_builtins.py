# expect: [44, {"a": 2}, 3]
"""Public code often uses the names of builtins for its own things."""


class Template:
    def __init__(self, source):
        self.source = source

    def compile(self):
        return Program(self.source.split())

    def eval(self, **vars):
        return self.compile().exec(vars)


class Program:
    def __init__(self, code):
        self.code = code

    def exec(self, env):
        stack = []
        for word in self.code:
            if word in ("+", "*"):
                b, a = stack.pop(), stack.pop()
                stack.append(a + b if word == "+" else a * b)
            else:
                stack.append(env[word] if word in env else int(word))
        return stack.pop()


def solve(input, help=None):
    return Template(input).eval(x=6, y=7)


def compile(rules):
    return {name: len(rule) for name, rule in rules.items()}


input = "x y * 2 +"
[solve(input), compile({"a": "bc"}), Template("1 2 +").eval()]
