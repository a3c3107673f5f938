# expect: [{"reverse": "desserts", "upper": "STRESSED"}, 2, true, "PluginMeta", ["Upper", "Plugin", "object"]]
class PluginMeta(type):
    registry = {}

    def __new__(mcls, name, bases, namespace, *, tag=None, **kwargs):
        cls = super().__new__(mcls, name, bases, namespace, **kwargs)
        if bases:
            mcls.registry[tag or name.lower()] = cls
        return cls

    def __call__(cls, *args, **kwargs):
        instance = super().__call__(*args, **kwargs)
        instance.created = True
        return instance

    def __len__(cls):
        return len(cls.registry)

    def __iter__(cls):
        return iter(sorted(cls.registry))


class Plugin(metaclass=PluginMeta):
    def run(self, text):
        raise NotImplementedError


class Upper(Plugin):
    def run(self, text):
        return text.upper()


class Backwards(Plugin, tag="reverse"):
    def run(self, text):
        return text[::-1]


text = "stressed"
outputs = {name: PluginMeta.registry[name]().run(text) for name in Plugin}
[outputs, len(Plugin), Upper().created, type(Upper).__name__, [c.__name__ for c in Upper.__mro__]]
