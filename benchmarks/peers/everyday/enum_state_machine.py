from enum import Enum, IntFlag, auto


class State(Enum):
    IDLE = auto()
    RUNNING = auto()
    DONE = auto()


class Allowed(IntFlag):
    READ = 1
    WRITE = 2
    BOTH = READ | WRITE


NEXT = {State.IDLE: {"start": State.RUNNING}, State.RUNNING: {"stop": State.IDLE, "finish": State.DONE}}
state, log = State.IDLE, []
for event in ["start", "stop", "finish", "start", "finish"]:
    following = NEXT.get(state, {}).get(event)
    log.append(f"{event}: {following.name if following else 'refused'}")
    state = following or state
result = [log, state is State.DONE, [member.name for member in State], State["IDLE"].value, Allowed.WRITE in Allowed.BOTH, State(2).name]
