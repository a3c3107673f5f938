# expect: ["[WARNING] large order: 12 x desk", "[ERROR  ] no 'price'"]
# stdout: "INFO:shop.orders:ordered pen\nWARNING:shop.orders:large order: 12 x desk\nINFO:shop.orders:ordered desk\nERROR:shop.orders:no 'price'\n"
import logging
import sys

logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(levelname)s:%(name)s:%(message)s")
log = logging.getLogger("shop.orders")


class ListHandler(logging.Handler):
    def __init__(self):
        super().__init__(level=logging.WARNING)
        self.records = []

    def emit(self, record):
        self.records.append(self.format(record))


handler = ListHandler()
handler.setFormatter(logging.Formatter("[%(levelname)-7s] %(message)s"))
log.addHandler(handler)


def order(item, count):
    log.debug("checking %s", item)
    if count > 10:
        log.warning("large order: %d x %s", count, item)
    log.info("ordered %s", item)


order("pen", 3)
order("desk", 12)
try:
    {}["price"]
except KeyError as error:
    log.error("no %s", error)
handler.records
