# expect: [["server", "client"], 8080, true, "http://example.org:8080/", [10, 30], "none", true, 1990, 2.0]
import configparser
import io
import tomllib

INI = """
[DEFAULT]
timeout = 10
[server]
host = example.org
port = 8080
debug = yes
url = http://%(host)s:%(port)s/
[client]
timeout = 30
"""
TOML = """
title = "demo"
[owner]
name = "Ann"
born = 1990-05-17
[[servers]]
ip = "10.0.0.1"
weights = [0.5, 1.5]
"""

config = configparser.ConfigParser()
config.read_string(INI)
server = config["server"]
config.set("client", "retries", "3")
out = io.StringIO()
config.write(out)
data = tomllib.loads(TOML)
[
    config.sections(),
    server.getint("port"),
    server.getboolean("debug"),
    server["url"],
    [config[name].getint("timeout") for name in config.sections()],
    server.get("missing", fallback="none"),
    "retries = 3" in out.getvalue(),
    data["owner"]["born"].year,
    sum(data["servers"][0]["weights"]),
]
