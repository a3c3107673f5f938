"""What attacks on the console share with its other tests."""

from tests.engine.console.conftest import browser, console

__all__ = ["browser", "console"]
