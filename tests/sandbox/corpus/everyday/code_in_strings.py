# expect: [126, 1, 2, "    def show(func):", false]
"""Programs that write other programs' text: braces and dots in strings are not format fields."""
SCRIPT = """
function inherit(child, parent) { child.prototype.__proto__ = parent.prototype; }
const name = row => { return row.co_name; };
"""
STYLE = ".card { margin: 0; } .card__title__ { color: red; }"
PYTHON = '''
def show(func):
    return {func.__code__: func.__closure__}
'''
QUERY = "query { user(id: 1) { __typename name } }"


def minify(text):
    return " ".join(text.split())


def count_blocks(text):
    depth = deepest = 0
    for character in text:
        depth += (character == "{") - (character == "}")
        deepest = max(deepest, depth)
    return deepest


def indent(lines, by=4):
    for line in lines:
        yield " " * by + line if line else line


[len(minify(SCRIPT)), count_blocks(STYLE), count_blocks(QUERY), "".join(indent(PYTHON.splitlines()[:2])), "__globals__" in PYTHON]
