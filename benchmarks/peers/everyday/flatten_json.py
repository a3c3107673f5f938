import json


def flatten(value, path=""):
    if isinstance(value, dict):
        for key, item in value.items():
            yield from flatten(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from flatten(item, f"{path}[{index}]")
    else:
        yield path, value


document = json.loads('{"user": {"name": "Ann", "tags": ["a", "b"]}, "active": true, "score": null}')
result = dict(flatten(document))
