from functools import singledispatch


@singledispatch
def render(value):
    return f"?{type(value).__name__}"


@render.register
def _(value: int):
    return f"{value:,}"


@render.register(list)
@render.register(tuple)
def _(value):
    return "[" + " ".join(render(item) for item in value) + "]"


@render.register
def _(value: str):
    return value.upper()


result = [render(1234567), render(["a", 2, ("b", 3.5)]), render({})]
