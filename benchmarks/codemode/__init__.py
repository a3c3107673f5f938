"""Direct tool calls, code mode and composed tools at the same tasks."""
