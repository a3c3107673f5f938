# expect: "Hi ANN! [Red Pen:2] [Cup:0]"
"""A small template engine: {{ name }}, {% for %} and filters."""
import re

TOKENS = re.compile(r"(\{\{.*?\}\}|\{%.*?%\})")
FILTERS = {"upper": str.upper, "title": str.title, "len": lambda value: str(len(value))}


def lookup(path, context):
    value = context
    for part in path.split("."):
        value = value[part] if isinstance(value, dict) else getattr(value, part)
    return value


def render(template, context):
    parts = TOKENS.split(template)
    return "".join(_render(iter(parts), context))


def _render(parts, context):
    for part in parts:
        if part.startswith("{{"):
            name, *filters = (piece.strip() for piece in part[2:-2].split("|"))
            value = lookup(name, context)
            for name in filters:
                value = FILTERS[name](value)
            yield str(value)
        elif part.startswith("{% for"):
            _, _, variable, _, source, _ = part.split()
            body, depth = [], 1
            for inner in parts:
                depth += inner.startswith("{% for") - inner.startswith("{% end")
                if not depth:
                    break
                body.append(inner)
            for item in lookup(source, context):
                yield from _render(iter(body), {**context, variable: item})
        else:
            yield part


class User:
    def __init__(self, name):
        self.first_name = name


page = "Hi {{ user.first_name | upper }}!{% for item in items %} [{{ item.name | title }}:{{ item.tags | len }}]{% end %}"
render(page, {"user": User("ann"), "items": [{"name": "red pen", "tags": "ab"}, {"name": "cup", "tags": ""}]})
