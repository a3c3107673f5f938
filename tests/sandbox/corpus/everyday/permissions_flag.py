# expect: {"mode": 3, "names": ["READ", "WRITE"], "can_run": false, "without": true, "all": true, "level": 11}
from enum import Flag, IntEnum, auto, unique


class Permission(Flag):
    READ = auto()
    WRITE = auto()
    EXECUTE = auto()
    ALL = READ | WRITE | EXECUTE


@unique
class Level(IntEnum):
    LOW = 1
    HIGH = 10


def parse(text):
    result = Permission(0)
    for letter, flag in zip("rwx", (Permission.READ, Permission.WRITE, Permission.EXECUTE)):
        if letter in text:
            result |= flag
    return result


mode = parse("rw")
without = mode & ~Permission.WRITE
{
    "mode": mode.value,
    "names": [flag.name for flag in Permission if flag in mode],
    "can_run": bool(mode & Permission.EXECUTE),
    "without": without is Permission.READ,
    "all": parse("rwx") == Permission.ALL,
    "level": Level.HIGH + Level.LOW,
}
