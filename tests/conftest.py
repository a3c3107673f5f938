"""Real components everywhere: the real image, real workers."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import os
import re
import signal
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import httpcore2
import psutil
import pytest

from go_ent.sandbox import ApprovalRequired, Limits, Sandbox, ToolError
from go_ent.sandbox.host.zygote import Zygote, zygotes
from go_ent.sandbox.images.cache import cache_path
from go_ent.sandbox.worker.orders import Orders
from tests.support import forked
from tests.support.skips import pytest_make_collect_report, pytest_runtest_makereport

__all__ = ["pytest_make_collect_report", "pytest_runtest_makereport"]
os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"  # never the keyring of whoever runs the tests
# Clients that tests make trust whom they trust; reading that takes 20 ms, and no test speaks TLS through them.
httpcore2.default_ssl_context = functools.cache(httpcore2.default_ssl_context)


MEMORY = Path("/dev/shm")


def has_room(folder: Path) -> bool:
    """Whether tests can have their folders there: a gigabyte, and programs in it can be executed."""
    try:
        room = os.statvfs(folder)
    except OSError:
        return False
    return room.f_bavail * room.f_frsize >= 1 << 30 and not room.f_flag & os.ST_NOEXEC


def pytest_configure(config: pytest.Config) -> None:
    """Programs that tests start obey SIGINT and SIGHUP. `make test &` and `nohup` have them ignored, which children
    inherit: each that is interrupted would be waited for until the next, stronger signal.
    """
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)
    if config.getoption("--in-memory") and has_room(MEMORY):
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(MEMORY)
    if config.getoption("numprocesses", None):  # none in those processes
        os.environ[forked.VARIABLE] = forked.begin()
    Sandbox._compare = config.getoption("--compare-memory")
    Sandbox._remade = "the tests ask for it" if config.getoption("--remake-guests") else ""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests are there to stay: Python looks for garbage neither while they are made nor, later, in them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@functools.cache
def may_run_guests(module: Path) -> bool:
    """Whether tests of a module can have a sandbox in this process: where they have one, it is named."""
    return re.search(r"\b(Sandbox|Composer|Engine|box|open_composer)\b", module.read_text(encoding="utf-8")) is not None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Those of the whole project first: some take seconds, for which other processes would wait in the end. What is
    asked of guests is asked only of tests that may run one.
    """
    items.sort(key=lambda item: item.path.parent != Path(__file__).parent)
    if config.getoption("--compare-memory") or config.getoption("--remake-guests"):
        without = [item for item in items if not may_run_guests(item.path)]
        config.hook.pytest_deselected(items=without)
        items[:] = [item for item in items if may_run_guests(item.path)]


def add(a: int, b: int) -> int:
    """Two numbers, added."""
    return a + b


async def echo(value: str, delay: float = 0.0) -> str:
    """The value, after a while."""
    await asyncio.sleep(delay)
    return value


def nap(seconds: float) -> float:
    """A plain function that blocks."""
    time.sleep(seconds)
    return seconds


def fail(message: str) -> None:
    raise ToolError(message)


def leak() -> None:
    open("/nonexistent/secret/path.txt")  # noqa: SIM115


def blow_up() -> None:
    raise ValueError(f"went wrong in {__file__}")


def leave() -> None:
    raise SystemExit(3)


def huge(size: int) -> str:
    return "x" * size


def odd() -> object:
    return object()


def guarded(amount: int) -> int:
    if amount > 10:
        raise ApprovalRequired("more than ten")
    return amount


TOOLS = {
    "add": add,
    "echo": echo,
    "nap": nap,
    "fail": fail,
    "leak": leak,
    "blow_up": blow_up,
    "leave": leave,
    "huge": huge,
    "odd": odd,
    "guarded": guarded,
    "deep": {"er": {"add": add}},
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--compare-memory", action="store_true", help="compare all of a guest's memory after each run")
    parser.addoption("--remake-guests", action="store_true", help="make guests anew instead of resetting them")
    parser.addoption("--in-memory", action="store_true", help="have the tests' folders in memory, where there is room")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Nothing outlives the tests, whatever they have left: but for the processes that run the other tests."""
    forked.end()
    if hasattr(session.config, "workerinput") or not session.config.getoption("numprocesses", None):
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True, scope="session")
def user_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing of the user who runs the tests is read or written: keys, trust, tools."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GO_ENT_DATA", str(tmp_path_factory.mktemp("user")))
        patch.delenv("GO_ENT_TRUST_PROJECT", raising=False)
        for name in [name for name in os.environ if name.startswith("GO_ENT__")]:
            patch.delenv(name)
        yield


@pytest.fixture(autouse=True, scope="session")
def kept_zygotes() -> Iterator[None]:
    """Sandboxes of a process share the process that makes their workers for as long as one of them is open. Here it
    stays after the last: starting it takes longer than most tests. Not those of images that tests make.
    """
    cache, share, kept = cache_path(), zygotes.share, dict[Orders, Zygote]()

    def shared(orders: Orders) -> Zygote:
        if orders not in kept and Path(orders.artefact).is_relative_to(cache):
            kept[orders] = share(orders)
        return share(orders)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zygotes, "share", shared)
        yield
    for zygote in kept.values():
        zygote.close()


@pytest.fixture(scope="session")
def box() -> Iterator[Sandbox]:
    with Sandbox(TOOLS, Limits(timeout_s=30, cpu_s=20)) as box:
        yield box


@pytest.fixture(scope="session")
def shared_box() -> Iterator[Sandbox]:
    """A sandbox without tools, for tests to which it is only the place where code runs."""
    with Sandbox(limits=Limits(timeout_s=30, cpu_s=20)) as box:
        yield box


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, and a user's folder that is nobody's."""
    monkeypatch.setenv("GO_ENT_DATA", str(tmp_path / "user"))
    monkeypatch.delenv("GO_ENT_RUN", raising=False)
    folder = tmp_path / "project"
    (folder / ".go-ent").mkdir(parents=True)
    return folder


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests have to say at the end, also those of other processes: how much of the documentation was executed."""
    for report in terminalreporter.getreports("passed"):
        for name, text in report.user_properties if report.when == "call" else ():
            if name == "documentation":
                terminalreporter.write_line(str(text))
