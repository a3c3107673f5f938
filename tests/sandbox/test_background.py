"""What runs leave on an event loop: sockets that are heard while they are listened to, and nothing afterwards."""

from __future__ import annotations

import asyncio
import gc
import os
import socket

from go_ent.sandbox import Sandbox
from go_ent.sandbox.host.background import Ears
from go_ent.sandbox.host.flight import Flight


async def hear() -> None:
    ears, heard = Ears.of(asyncio.get_running_loop()), asyncio.Event()
    assert Ears.of(asyncio.get_running_loop()) is ears
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ears.listen(ours.fileno(), heard.set)
        theirs.send(b"a")
        await asyncio.wait_for(heard.wait(), 10)
        ears.unlisten(ours.fileno())
        ears.unlisten(ours.fileno())  # once more: it is not there any more
        heard.clear()
        for _ in range(3):
            await asyncio.sleep(0)
        assert not heard.is_set()


def test_a_socket_is_heard_until_it_is_unlistened_and_a_closed_loop_leaves_no_descriptor() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        asyncio.run(hear())
    assert len(os.listdir("/proc/self/fd")) == before


async def test_a_socket_that_is_closed_while_it_is_listened_to_makes_room_for_the_next_of_its_number() -> None:
    ears, heard = Ears.of(asyncio.get_running_loop()), asyncio.Event()
    ours, theirs = socket.socketpair()
    number = ours.fileno()
    ears.listen(number, lambda: None)
    ours.close()
    theirs.close()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert number in (ours.fileno(), theirs.fileno())
        other = theirs if number == ours.fileno() else ours
        ears.listen(number, heard.set)
        other.send(b"a")
        await asyncio.wait_for(heard.wait(), 10)
        ears.unlisten(number)


async def test_a_run_waits_for_no_garbage_collector() -> None:
    def flights() -> int:
        return sum(isinstance(item, Flight) for item in gc.get_objects())

    async with Sandbox(workers=1) as box:
        await box.run("1 + 1")
        gc.collect()
        gc.disable()
        try:
            before = flights()
            for _ in range(3):
                assert (await box.run("1 + 1")).ok
            assert flights() == before
        finally:
            gc.enable()
