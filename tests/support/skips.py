"""The skips that are expected: what a machine, a user or an installation may lack. Any other skipped test fails, so
that no part of the suite goes quiet unseen.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

# The test's file, and how the reason begins.
MAY_SKIP = (
    ("tests/test_peers.py", "pydantic-monty"),  # `make bench` installs it
    ("tests/e2e/test_real_typescript.py", "there is no node"),
    ("tests/e2e/test_real_typescript.py", "TypeScript's compiler is not there"),
    ("tests/browser/", "there is no Chromium"),
    ("tests/engine/fleet/test_failures.py", "the kernel lets nobody"),
    ("tests/faults/", "no mounts of one's own"),
    ("tests/security/test_http.py", "only root"),
    ("tests/security/test_image_cache.py", "only root"),
    ("tests/security/test_hardening.py", "this kernel's landlock"),
    ("tests/security/test_hardening.py", "the kernel's headers"),
)


def expected(nodeid: str, reason: str) -> bool:
    return any(nodeid.startswith(place) and reason.startswith(begins) for place, begins in MAY_SKIP)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not expected(item.nodeid, reason.removeprefix("Skipped: ")):
            report.outcome = "failed"
            report.longrepr = f"{reason}\nThis skip is not one of those in tests/support/skips.py."
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.skipped:
        report.outcome = "failed"
        report.longrepr = f"{report.longrepr}\nA whole module may not be skipped (tests/support/skips.py)."
    return report
