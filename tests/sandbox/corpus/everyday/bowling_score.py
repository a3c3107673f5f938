# expect: {"perfect": 300, "nines": 90, "spares": 150, "mixed": 167}
def score(rolls):
    """Score a game of ten-pin bowling."""
    total, i = 0, 0
    for frame in range(10):
        if rolls[i] == 10:
            total += 10 + rolls[i + 1] + rolls[i + 2]
            i += 1
        elif rolls[i] + rolls[i + 1] == 10:
            total += 10 + rolls[i + 2]
            i += 2
        else:
            total += rolls[i] + rolls[i + 1]
            i += 2
    return total


def parse(text):
    rolls = []
    for mark in text.replace("|", ""):
        match mark:
            case "X":
                rolls.append(10)
            case "/":
                rolls.append(10 - rolls[-1])
            case "-":
                rolls.append(0)
            case digit if digit.isdigit():
                rolls.append(int(digit))
            case _:
                raise ValueError(f"strange mark {mark!r}")
    return rolls


games = {"perfect": "XXXXXXXXXXXX", "nines": "9-" * 10, "spares": "5/" * 10 + "5", "mixed": "X|7/|9-|X|-8|8/|-6|X|X|X81"}
{name: score(parse(game)) for name, game in games.items()}
