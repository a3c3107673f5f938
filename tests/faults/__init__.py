"""Faults of the machine: each gives a clear error, and nothing that was acknowledged is lost.

Where each is proved, beside what is here:

- **A full disk**: test_disk.py, on a small real one (command line, server, in the middle of a run, any amount of room
  left);
  every single write of a journal in tests/engine/executions/test_crashes.py (TestFullDisk), test_journal.py and
  test_store.py.
- **A read-only state folder**: test_disk.py, on a disk that is mounted so; tests/engine/budget/test_budget.py for the
  account.
- **A clock that jumps back**: test_clock.py; budgets and their windows in tests/engine/budget/test_budget.py; a guest's
  own clock in
  tests/sandbox/test_tape.py.
- **kill -9 of the server**: test_killed.py, with clients at work, and in the middle of every kind of write; of any
  process at every named
  place and at any moment in tests/engine/executions/test_crashes.py; over stdio in tests/engine/server/test_calls.py;
  of one that composes in tests/composer/composed/test_store.py; of one that holds money in
  tests/engine/budget/test_budget.py.
- **kill -9 of a worker, or of the zygote**: test_killed.py; in tests/sandbox/ for the sandbox alone.
- **kill -9 of an upstream MCP server**: test_killed.py, through a server; tests/composer/sources/test_mcp.py for every
  way to die.
- **Half-written files**: test_half_written.py, of every kind that a project or its user has; any damage to a journal, a
  state or the index
  in tests/engine/executions/test_journal.py, test_store.py and test_index.py; workflows and loops in
  tests/engine/workflows/test_workflows.py and test_loops.py; summaries in tests/engine/context/test_chain.py; images
  and compiled artefacts in tests/sandbox/test_images.py.
- **Two servers on one project**: test_two_servers.py; eight processes in tests/engine/executions/test_many.py and
  test_budget.py.
- **Load**: test_soak.py, a short form of `make soak`.
"""
