import json

DEFAULTS = '{"server": {"host": "localhost", "port": 8080}, "debug": false, "plugins": ["core"]}'
OVERRIDES = '{"server": {"port": 9090, "tls": true}, "plugins": ["core", "auth"], "level": 3.5}'


def merge(base, extra):
    merged = dict(base)
    for key, value in extra.items():
        if isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = merge(merged[key], value)
        else:
            merged[key] = value
    return merged


config = merge(json.loads(DEFAULTS), json.loads(OVERRIDES))
try:
    json.loads('{"broken": ')
except json.JSONDecodeError as error:
    broken = f"line {error.lineno}"
result = [json.dumps(config, indent=2, sort_keys=True), broken]
