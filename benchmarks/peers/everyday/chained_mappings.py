from collections import ChainMap, Counter, OrderedDict, defaultdict

settings = ChainMap({"colour": "red"}, {"colour": "blue", "size": 3}, {"size": 1, "speed": 9})
index = defaultdict(list)
for word in ["apple", "avocado", "bean", "beet", "corn"]:
    index[word[0]].append(word)
ordered = OrderedDict.fromkeys("cab")
ordered.move_to_end("c")
stock = Counter(apples=5, pears=2)
stock.subtract({"apples": 2, "plums": 1})
result = [dict(settings), settings.maps[1]["colour"], index, list(ordered), stock, (stock + Counter(pears=1)).total()]
