# expect: [["RUNNING", "PAUSED", "RUNNING", "DONE"], true, "start is not allowed in DONE", ["IDLE", "RUNNING", "PAUSED", "DONE"], "PAUSE"]
from enum import Enum, auto


class State(Enum):
    IDLE = auto()
    RUNNING = auto()
    PAUSED = auto()
    DONE = auto()

    @property
    def final(self):
        return self is State.DONE


class Event(str, Enum):
    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    FINISH = "finish"


TRANSITIONS = {
    (State.IDLE, Event.START): State.RUNNING,
    (State.RUNNING, Event.PAUSE): State.PAUSED,
    (State.PAUSED, Event.RESUME): State.RUNNING,
    (State.RUNNING, Event.FINISH): State.DONE,
}


class Machine:
    def __init__(self):
        self._state = State.IDLE
        self.log = []

    def send(self, event):
        event = Event(event)
        try:
            self._state = TRANSITIONS[self._state, event]
        except KeyError:
            raise RuntimeError(f"{event.value} is not allowed in {self._state.name}") from None
        self.log.append(self._state.name)


machine = Machine()
for event in ["start", "pause", "resume", "finish"]:
    machine.send(event)
try:
    machine.send("start")
except RuntimeError as error:
    refused = str(error)
[machine.log, machine._state.final, refused, list(State.__members__), Event("pause").name]
