# expect: [[2.0, null], ["DEBUG divide: dividing 6 by 3", "DEBUG divide: dividing 1 by 0", "ERROR divide: division failed"]]
import logging


def setup(name, path):
    logger = logging.getLogger(name)
    logger.setLevel(logging.DEBUG)
    handler = logging.FileHandler(path, mode="w", encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(levelname)s %(funcName)s: %(message)s"))
    logger.addHandler(handler)
    logger.propagate = False
    return logger


log = setup(__name__, "app.log")


def divide(a, b):
    log.debug("dividing %s by %s", a, b)
    try:
        return a / b
    except ZeroDivisionError:
        log.error("division failed")
        return None


results = [divide(6, 3), divide(1, 0)]
logging.shutdown()
with open("app.log", encoding="utf-8") as file:
    lines = file.read().splitlines()
[results, lines]
