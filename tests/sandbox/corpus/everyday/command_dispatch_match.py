# expect: {"x": -1, "y": 3, "log": ["hello there", "what is 'dance'?", "what is 'say'?", "bye"]}
def run(commands):
    state = {"x": 0, "y": 0, "log": []}
    for command in commands:
        match command.split():
            case ["go", ("north" | "south" | "east" | "west") as direction, *steps]:
                amount = int(steps[0]) if steps else 1
                dx, dy = {"north": (0, 1), "south": (0, -1), "east": (1, 0), "west": (-1, 0)}[direction]
                state["x"] += dx * amount
                state["y"] += dy * amount
            case ["say", *words] if words:
                state["log"].append(" ".join(words))
            case ["quit"]:
                state["log"].append("bye")
                break
            case [unknown, *_]:
                state["log"].append(f"what is {unknown!r}?")
            case []:
                continue
    return state


run(["go north 3", "go west", "say hello there", "dance now", "", "say", "quit", "go south"])
