people = [("Zoe", 31, "Oslo"), ("Ann", 25, "Rome"), ("Bob", 31, "Rome"), ("Cid", 25, "Oslo")]
by_age_then_name = sorted(people, key=lambda person: (-person[1], person[0]))
people.sort(key=lambda person: person[2])
oldest = max(people, key=lambda person: person[1])
ranks = {name: rank for rank, (name, *_) in enumerate(by_age_then_name, start=1)}
result = {"order": [name for name, _, _ in by_age_then_name], "by city": people, "oldest": oldest[0], "ranks": ranks}
