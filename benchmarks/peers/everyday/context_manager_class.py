class Transaction:
    def __init__(self, store):
        self.store = store

    def __enter__(self):
        self.saved = dict(self.store)
        events.append("begin")
        return self.store

    def __exit__(self, kind, error, traceback):
        if error is not None:
            self.store.clear()
            self.store.update(self.saved)
            events.append(f"rollback: {kind.__name__}")
            return isinstance(error, KeyError)
        events.append("commit")
        return False


events = []
store = {"a": 1}
with Transaction(store) as working:
    working["b"] = 2
with Transaction(store) as working:
    working["c"] = 3
    del working["missing"]
try:
    with Transaction(store) as working:
        working["d"] = 1 / 0
except ZeroDivisionError:
    events.append("passed on")
result = [store, events]
