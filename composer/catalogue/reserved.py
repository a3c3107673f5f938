"""Names that are go-ent's own: no composed tool and no server can have one. The one list of them."""

from __future__ import annotations

NAMESPACES = frozenset(
    {"engine", "results"}
)  # sources of our own, beside which a server of that name could not be added
IN_CODE = frozenset({"tools", "checkpoint"})  # what code in the guest finds: a function of that name would hide it
QUESTIONS = frozenset({"search", "describe", "call"})  # what `tools` itself answers, where no tool is called that
OFFERED = frozenset({"code_execute", "summarize"})  # tools of our own, at the top level
PACKAGES = frozenset({"composer", "sandbox", "go_ent"})  # what messages call our own parts
PREFIXES = ("tool_", "engine_")  # how the server's own tools begin, those of other versions too


def is_reserved(name: str) -> bool:
    """Whether a composed tool can't be called that, since the name is go-ent's own or could be taken for it."""
    return name in NAMESPACES | IN_CODE | OFFERED | PACKAGES or name.startswith(PREFIXES)


def reserved_problem(name: str) -> str | None:
    """What is wrong with the name of a composed tool, if it is a reserved one."""
    if not is_reserved(name):
        return None
    kind = f"names that begin with {' or '.join(PREFIXES)}" if name.startswith(PREFIXES) else f"the name {name}"
    return (
        f"`name` in its metadata: {kind} {'are' if name.startswith(PREFIXES) else 'is'} reserved for go-ent "
        "itself: choose another"
    )
