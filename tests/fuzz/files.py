"""Files that a person, an editor, another program or a crash may have left: settings, tools, plans, records, texts."""

from __future__ import annotations

import hashlib
import json
import zlib

from go_ent.composer import ComposeRefused, ConfigError
from go_ent.composer.catalogue.learned_schemas import LearnedSchemas
from go_ent.composer.composed import toolfile
from go_ent.composer.config import read_config
from go_ent.composer.errors import BadName
from go_ent.composer.project.layers import UnreadableSettings, literal, read_layers
from go_ent.composer.project.toml_lines import lines_of
from go_ent.composer.sources.listing import read_copy, write_copy
from go_ent.composer.sources.openapi_document import load_document
from go_ent.composer.sources.server_config import servers_from_mcp_json
from go_ent.engine.context.chain import Chain
from go_ent.engine.context.counting import Counter
from go_ent.engine.context.deterministic import Deterministic
from go_ent.engine.context.facts import extract
from go_ent.engine.context.models import Message, SummaryRequest
from go_ent.engine.context.split import pieces
from go_ent.engine.core.config import read_engine_config
from go_ent.engine.core.errors import BadState, BadTask
from go_ent.engine.executions.past_runs import Calls, past_runs
from go_ent.engine.executions.state import Environment, ExecutionState, unpack
from go_ent.engine.executions.tape import read_tapes
from go_ent.engine.prompts.chunker import pack
from go_ent.engine.prompts.skills import find_skills
from go_ent.engine.prompts.templating import Templates
from go_ent.engine.setup import json_edit
from go_ent.engine.storage.attachments import FileAttachments
from go_ent.engine.storage.records import Scan
from go_ent.engine.strategies.plan import read_plan
from go_ent.engine.tokens import count as count_tokens
from go_ent.engine.workflows.workflow import read_workflow
from go_ent.sandbox.worker.seam import SEED_BYTES
from tests.fuzz.target import as_file, folder, target
from tests.support.executions import FileStore

SETTINGS = (
    b'[grants]\nallow = ["github.*"]\n\n[servers.github]\ncommand = "npx"\nargs = ["-y", "server"]\nenv = { T '
    b'= "${env:T}" }\n',
    b'[budget.day]\nusd = 5.0\n\n[[x]]\na.b."c d" = 1\n[commands.llm]\nargv = ["llm", '
    b'"{prompt}"]\n[context]\nthreshold = 0.5\n',
    b'a = """\n[b]\n"""\nc = [1, # no\n 2]\n',
)


@target(*SETTINGS, refuses=(UnreadableSettings, ConfigError))
def settings(data: bytes) -> None:
    """A project's configuration: used, or refused with the place of each mistake."""
    path = as_file("project/.go-ent/config.toml", data)
    layers = read_layers(path, {})
    found = lines_of(data.decode())
    assert all(1 <= line <= data.count(b"\n") + 1 for line in found.values())
    read_config(folder() / "project", layers=layers)
    read_engine_config(folder() / "project", layers)


@target(b"5", b'["a", 1]', b"{ a = 1 }", b"2026-01-05", b'"x', b"[" * 3000)
def variable(data: bytes) -> None:
    """What an environment variable stands for."""
    literal(data.decode("utf-8", "replace"))


TOOL = b'''# /// tool
# name = "top"
# version = 2
# limits = { timeout_s = 5 }
# ///
# /// examples
# {"inputs": {"text": "a"}, "result": {"a": 1}}
# ///
def top(text: str) -> dict[str, int]:
    """Top."""
    return {text: 1}
'''


SCRIPT = b"""// /// tool
// name = "top"
// version = 2
// language = "javascript"
// ///
// /// examples
// {"inputs": {"text": "a"}, "result": 1}
// ///
/** Top. @param {string} text @returns {number} */
export const top = (text) => text.length;
"""


@target(TOOL, SCRIPT, b'# /// tool\n# name = "x"\n# ///\n', b"def f(): pass", refuses=(ComposeRefused, BadName))
def tool_file(data: bytes) -> None:
    """A composed tool's file: its name is one that a path can hold, and its version can be changed."""
    found = toolfile.read(data)
    assert found.name.isascii()
    assert found.name.isidentifier()
    try:
        again = found.with_version(7)
    except ComposeRefused:
        return
    assert (again.name, again.metadata.version) == (found.name, 7)


@target(
    b'{"mcpServers":{"a":{"command":"x","args":["y"],"env":{"K":"${K}"}}}}',
    b'{"mcpServers":{"b":{"type":"http","url":"https://x"}}}',
    refuses=(ConfigError,),
)
def mcp_servers(data: bytes) -> None:
    """Another client's list of servers."""
    servers_from_mcp_json(as_file("mcp.json", data))


API = b'{"openapi":"3.1.0","info":{"title":"t","version":"1"},"servers":[{"url":"https://x"}],"paths":{"/a":{"get":{"operationId":"a","responses":{"200":{}}}}}}'


@target(API, b"openapi: 3.0.1\npaths:\n  /a:\n    get: {responses: {200: {}}}\n", b"a: &a [*a]", refuses=(ConfigError,))
def openapi(data: bytes) -> None:
    """A description of an API."""
    json.dumps(load_document(data[:50_000].decode("utf-8", "replace")))


KEPT = (
    b'{"version":1,"identity":"00000000000000000000000000000000","listed":1.5,"tools":[{"upstream":"get-it","description":'
    b'"d","input":"11111111111111111111111111111111","hints":[true,null,null,false],"route":{"method":"GET","path":"/a/{b}",'
    b'"places":{"b":["path","b"]},"query":{"c":{"style":"form"}}}}],"schemas":{"11111111111111111111111111111111":{}}}'
)


@target(KEPT, KEPT.replace(b"get-it", b"__x"), KEPT.replace(b"1.5", b"1e999"), refuses=(ValueError, KeyError, BadName))
def kept_listing(data: bytes) -> None:
    """What is kept of a server's tools: names that code can call, and what is written is read again."""
    found = read_copy(data, "x", "MCP server x")
    assert all(name == f"x.{one.part}" and one.part.isidentifier() for name, one in found.listing.entries.items())
    assert read_copy(write_copy(found), "x", "MCP server x") == found


@target(b'{"a.b":{"type":"object"}}', b"[]")
def learned(data: bytes) -> None:
    """What was learned of results: what can't be read was not learned."""
    assert all(isinstance(schema, dict) for schema in LearnedSchemas(as_file("learned.json", data)).load().values())


OLD_RUN = b'{"id":"x","kind":"code","status":"completed","source":"1","calls":[{"name":"a","ok":true,"result":[1]}]}\n'


@target(OLD_RUN, b"\n\n{")
def old_runs(data: bytes) -> None:
    """An older version's list of runs: lines that are none are passed over."""
    as_file("listed/.go-ent/journal/runs.jsonl", data)
    found = list(past_runs(FileStore(folder() / "listed")))
    assert len(found) == 1 or data != OLD_RUN


PLAN = (
    b'[[task]]\nid = "a"\ntool = "words"\ninputs = { n = 1 }\n\n[[task]]\nid = "b"\ndescription = "say ${a.output}"\n'
)


@target(PLAN, b'{"task":[{"id":"a","description":"x","depends_on":["b"]}]}', refuses=(BadTask,))
def plan(data: bytes) -> None:
    """A plan's file, in either language."""
    read_plan(as_file("plan.json" if data[:1] == b"{" else "plan.toml", data))


@target(
    b'name = "w"\n[[step]]\nid = "a"\ndescription = "x"\n',
    b'{"name":"w","step":[{"id":"a","wait":"go on?"}]}',
    refuses=(BadTask,),
)
def workflow(data: bytes) -> None:
    read_workflow(as_file("flow.json" if data[:1] == b"{" else "flow.toml", data))


def line(body: bytes) -> bytes:
    return b'%s,"crc":"%08x"}\n' % (body, zlib.crc32(body))


RECORDS = line(b'{"at":1.0,"seq":1,"kind":"begun","path":"run/1"') + line(b'{"at":2.0,"seq":2,"kind":"note","said":"x"')


@target(RECORDS, RECORDS[:-9], RECORDS[:20] + b"\n" + RECORDS, b'{"kind":"x","seq":1,"at":0}\n')
def journal(data: bytes) -> None:
    """An execution's journal, whole, torn or damaged: numbers rise, and every byte is accounted for."""
    path = as_file("journal.jsonl", data)
    scan = Scan(path)
    seen = [record["seq"] for record in scan if record["kind"] != "note"]
    assert seen == sorted(set(seen))
    assert scan.size + scan.torn <= len(data)
    assert path.read_bytes() == data


STATE = ExecutionState(
    id="0193",
    kind="task",
    title="t",
    work={"task": 1},
    work_digest="d",
    environment=Environment(go_ent="1", python="3"),
    created=1.0,
    updated=1.0,
)


@target(
    STATE.model_dump_json().encode(),
    b'{"version":3,"id":"x"}',
    b'{"version":2,"id":"x"}',
    b'{"version":1}',
    b'{"version":99}',
    refuses=(BadState,),
)
def state(data: bytes) -> None:
    """An execution's state whose checksum is right, whatever is in it."""
    text = data.rstrip(b"\n")
    unpack(b'{"checksum":"' + hashlib.sha256(text).hexdigest().encode() + b'","state":' + text + b"}\n", "state.json")


START = {
    "kind": "guest",
    "path": "run",
    "wall_ns": 1,
    "compiled": False,
    "image": "i",
    "source": "s",
    "seed": "00" * SEED_BYTES,
}
TAPE = [
    START,
    {"kind": "call", "path": "run/1", "tool": "t", "digest": "d", "heard": "1"},
    {"kind": "begun", "path": "run/1", "retry": False},
    {"kind": "answer", "path": "run/1", "answer": [1, 0, {"kind": "Unavailable", "message": "no"}]},
    {"kind": "cancel", "path": "run", "calls": [1], "heard": "[5,[1]]"},
    {"kind": "step_finished", "step": "run", "result": {"failure": "task"}},
]


@target(
    json.dumps(TAPE).encode(),
    json.dumps(TAPE[:3]).encode(),
    refuses=(ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError),
)
def tape(data: bytes) -> None:
    """The tapes in a journal: what is not as it should be is refused before anything is run."""
    records = json.loads(data)
    tracks = read_tapes(records)
    assert all(call.answer is None or isinstance(call.answer, bytes) for call in tracks.calls.values())


NOTED = b'[{"kind":"calls","path":"run","calls":[{"name":"a","result":1}]}]'


@target(json.dumps(TAPE).encode(), NOTED, refuses=(ValueError, TypeError, KeyError, AttributeError, RecursionError))
def past_calls(data: bytes) -> None:
    """The calls in a journal, for those who learn from them: what is not as it should be is passed over."""
    records = [record for record in json.loads(data) if isinstance(record["kind"], str)]
    try:
        calls = Calls()
        calls.add(records)
        found = [call for run in calls.by_run().values() for call in run]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise AssertionError("a record that is none is no reason to know nothing of the others") from error
    assert all(isinstance(call.name, str) for call in found)


LINK = b'{"version":1,"number":1,"replaced":["a"],"digest":"d","summary":"s","by":"x","tokens_before":9,"tokens_after":1,"at":1.0}\n'  # noqa: E501


@target(LINK, LINK[:-9], b'{"number":1e400}')
def chain(data: bytes) -> None:
    """A link of a chain of summaries: read, or told as a problem."""
    as_file("execution/context/0001.messages.jsonl", data)
    as_file("execution/context/0001.json", data)
    found = Chain(FileAttachments(folder() / "execution" / "context"))
    links, problems = found.listing()
    assert len(links) + len(problems) == 1
    assert found.check()  # a digest that fits is never found


@target(b'{"gpt": 1.2, "x": 1e9}', b"[1]")
def ratios(data: bytes) -> None:
    """What was learned of how models count."""
    counter = Counter.remembered(as_file("ratios.json", data))
    assert 0 < counter.ratio("gpt") < 100


@target(
    b"---\nname: s\ndescription: d\n---\nDo it.\n", b"---\na: &x [1]\nb: *x\n---\nx", b"just text", refuses=(BadTask,)
)
def skill(data: bytes) -> None:
    """A skill's file: whatever is wrong with it is said of it."""
    as_file("skilled/.go-ent/skills/s/SKILL.md", data)
    (found,) = find_skills(folder() / "skilled", ["s"])
    assert found.problem or found.content


EDITED = (
    b'{"mcpServers": {"go-ent": {"command": "x"}, "b": 1}}',
    b"{}",
    b"",
    b'{"a": 1, // c\n "mcpServers": {},}',
    b'\xef\xbb\xbf{\n\t"a": [1,\n2]}',
)


@target(*EDITED, refuses=(json_edit.NotEditable, UnicodeDecodeError))
def client_config(data: bytes) -> None:
    """A client's configuration: an entry is put in, taken out again, and all else is as it was."""
    text = data.decode()
    if json_edit.read(text)[1]:
        raise json_edit.NotEditable("it has comments: it is left to its owner")
    made = json_edit.put(text, ("mcpServers", "go-ent"), {"command": "go-ent"})
    before, after = json_edit.read(text)[0], json_edit.read(made)[0]
    assert {key: value for key, value in before.items() if key != "mcpServers"} == {
        key: value for key, value in after.items() if key != "mcpServers"
    }
    assert "go-ent" not in json_edit.read(json_edit.drop(made, ("mcpServers", "go-ent")))[0]["mcpServers"]


TEXTS = (
    b"# Report\n\nWe decided to use `engine/context/chain.py`.\nERROR: 42 of 100 failed in v1.2.3\n- [ ] open\n",
    b'[{"a": 1}, {"b": [2, 3]}, "' + b"x" * 500 + b'"]',
    b"100 *fails*, May! 5, 7 days",
    b"def f():\n    return 1\n\n\nclass A:\n    pass\n<|endoftext|>\xe2\x80\xa8",
)


@target(*TEXTS)
def text(data: bytes) -> None:
    """A text that is too long: its pieces are the whole, its facts are in it, and its summary is as short as it
    should be.
    """
    whole = data[:20_000].decode("utf-8", "replace")
    parts = pieces(whole, 50)
    assert "".join(parts) == whole
    assert all(fact in whole for fact in extract(whole).texts())
    summary = Deterministic().text(
        SummaryRequest(messages=(Message(id="1", speaker="user", text=whole),), target_tokens=100)
    )
    assert count_tokens(summary) <= 100


@target(*TEXTS)
def files_packed(data: bytes) -> None:
    """Files that are cut to fit: none of a file is lost."""
    whole = data[:20_000].decode("utf-8", "replace")
    chunks = pack([("a.txt", whole)], max_tokens=200)
    assert all(count_tokens(chunk.text()) <= 200 for chunk in chunks)
    assert "".join(part.text for chunk in chunks for part in chunk.parts) == whole


@target(
    b"{{ task.description }}",
    b"{% for a in range(3) %}{{ a }}{% endfor %}",
    b"{% include 'user.j2' %}",
    b"{{ ''.__class__ }}",
    refuses=(BadTask,),
)
def template(data: bytes) -> None:
    """A project's own template: rendered within its size, or refused with its line."""
    as_file("templated/.go-ent/prompts/type.j2", data)
    templates = Templates(folder() / "templated", trusted=True)
    assert (
        len(templates.render("type.j2", {"task": {"description": "x", "type": "general"}}, characters=2_000)) <= 2_000
    )
