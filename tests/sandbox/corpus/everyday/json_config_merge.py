# expect: {"server.host": "localhost", "server.port": 9000, "features": ["a", "b", "c"], "debug": true}
import copy
import json

DEFAULTS = {"server": {"host": "localhost", "port": 8080}, "features": ["a"], "debug": False}
OVERRIDES = '{"server": {"port": 9000}, "features": ["b", "c"], "debug": true}'


def deep_merge(base, extra):
    merged = copy.deepcopy(base)
    for key, value in extra.items():
        if isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = deep_merge(merged[key], value)
        elif isinstance(value, list):
            merged[key] = merged.get(key, []) + value
        else:
            merged[key] = value
    return merged


def flatten(tree, prefix=""):
    for key, value in tree.items():
        path = f"{prefix}.{key}" if prefix else key
        if isinstance(value, dict):
            yield from flatten(value, path)
        else:
            yield path, value


config = deep_merge(DEFAULTS, json.loads(OVERRIDES))
assert DEFAULTS["features"] == ["a"], "the defaults must stay as they are"
dict(flatten(config))
