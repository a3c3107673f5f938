def handle(command):
    match command:
        case ["go", ("north" | "south") as direction]:
            return f"going {direction}"
        case ["take", item, *others] if item != "dragon":
            return f"taking {item} and {len(others)} more"
        case {"action": "pay", "amount": int(amount)} if amount > 0:
            return f"paying {amount}"
        case str() as text:
            return f"said {text!r}"
        case (x, y):
            return f"at {x},{y}"
        case None:
            return "nothing"
        case _:
            return "what?"


commands = [
    ["go", "north"],
    ["take", "lamp", "rope", "key"],
    ["take", "dragon"],
    {"action": "pay", "amount": 5, "to": "Ann"},
    {"action": "pay", "amount": 0},
    "hello",
    None,
    3.5,
]
result = [handle(command) for command in commands]
