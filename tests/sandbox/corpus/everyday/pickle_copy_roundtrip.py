# expect: [["pear", 3], ["pear", 2], -1, "ann'", [1, null], [1, 2], [["pear", 3]], -1]
import copy
import pickle
from dataclasses import dataclass, field


@dataclass
class Basket:
    owner: str
    items: list = field(default_factory=list)
    _total: float | None = None

    def __getstate__(self):
        state = self.__dict__.copy()
        del state["_total"]
        return state

    def __setstate__(self, state):
        self.__dict__.update(state, _total=-1)

    def __copy__(self):
        return Basket(self.owner + "'", self.items)


basket = Basket("ann", [["pear", 2]])
shallow, deep = copy.copy(basket), copy.deepcopy(basket)
basket.items[0][1] += 1
thawed = pickle.loads(pickle.dumps({"set": {1, 2}, "nested": [(1, None), b"x"]}))
clone = pickle.loads(pickle.dumps(basket))
[shallow.items[0], deep.items[0], deep._total, shallow.owner, thawed["nested"][0], sorted(thawed["set"]), clone.items, clone._total]
