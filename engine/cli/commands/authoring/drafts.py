"""`go-ent tool new` and `edit`: a tool from its first line to the store."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from go_ent.composer import Composer, ComposeRefused
from go_ent.composer.composed import toolfile
from go_ent.composer.composed.drafts import Drafts
from go_ent.composer.composed.skeleton import from_code, skeleton
from go_ent.composer.composed.store import composed_stores
from go_ent.composer.composed.toolfile import MAX_BYTES, check_name
from go_ent.composer.errors import ToolNotFound
from go_ent.composer.project.files import find_project, read_bounded
from go_ent.engine.cli import SETUP_ERROR, UsageError
from go_ent.engine.cli.commands.choosing import meant
from go_ent.engine.cli.commands.exec import language_of
from go_ent.engine.cli.commands.recorded import with_composer
from go_ent.engine.cli.commands.tool import JsonFlag
from go_ent.engine.cli.commands.tool_files import GlobalFlag
from go_ent.engine.cli.terminal.ask import MAX_ANSWER, at_terminal, is_no
from go_ent.engine.cli.terminal.completion_values import ToolName
from go_ent.engine.cli.terminal.editor import NoEditor, edit
from go_ent.engine.cli.terminal.output import say, show, show_json
from go_ent.engine.executions.past_runs import past_run
from go_ent.engine.storages import open_store
from go_ent.sandbox.worker.languages import Language, by_suffix

ABOUT = "Say in one sentence what the tool does."


def new_command(
    name: Annotated[str, Parameter(help="What the tool is to be called.")],
    /,
    *,
    from_: Annotated[
        str | None,
        Parameter(
            name="--from",
            help="Begin with code: a file, - for stdin, or an execution: its short id, last, last-1.",
            allow_leading_hyphen=True,
        ),
    ] = None,
    language: Annotated[
        str | None,
        Parameter(name=["-l", "--language"], help="python, js or ts; by default what the file is, or Python."),
    ] = None,
    print_: Annotated[bool, Parameter(name="--print", negative="", help="Print the file, and write nothing.")] = False,
    json_: JsonFlag = False,
) -> int:
    """Begin a composed tool: a draft with comments and an example that passes, or with the code you have.

    `go-ent tool edit NAME` opens the draft in your editor, checks and tests it, and saves it as a tool.

    Example: go-ent tool new error_lines --from notes.py
    """
    check_name(name)
    drafts = Drafts(find_project("."))
    if not print_ and drafts.read(name) is not None:
        raise UsageError(f"{name} has a draft already, {drafts.path(name)}: go-ent tool edit {name} continues with it")
    if not print_ and any(store.find(name) is not None for store in composed_stores(find_project("."))):
        raise UsageError(f"there is a composed tool {name} already: go-ent tool edit {name} edits it")
    spoken = language_of(language, from_)
    if from_ is None:
        return _begin(drafts, name, skeleton(name, spoken), print_=print_, json_=json_)
    code = _code(from_)

    async def work(composer: Composer) -> int:
        if code is not None:
            source = await from_code(code, name, ABOUT, composer.box, spoken)
            return _begin(drafts, name, source, print_=print_, json_=json_)
        store = open_store(composer.project)
        run = await asyncio.to_thread(lambda: past_run(store, meant(from_, store)))
        if language is not None and run.language != spoken:
            raise UsageError(f"-l {language}: the code of {from_} is {run.language}")
        await composer.catalogue.load()
        source = await composer.tool_of(run, name, ABOUT)
        return _begin(drafts, name, source, print_=print_, json_=json_)

    return with_composer(work, progress="making a function of it", quiet=json_)


def _code(given: str) -> str | None:
    """The code of a file or of stdin; None for what can only be an execution."""
    if given == "-":
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
    elif Path(given).is_file():
        data = read_bounded(Path(given), MAX_BYTES, links=True)
    elif by_suffix(given) is not None or "/" in given:
        raise UsageError(f"there is no file {given}")
    else:
        return None
    if len(data) > MAX_BYTES:
        raise UsageError(f"{given} is larger than {MAX_BYTES} bytes, which no tool's file may be")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UsageError(f"{given} is not UTF-8 text") from None


def _begin(drafts: Drafts, name: str, source: str, *, print_: bool, json_: bool) -> int:
    language = toolfile.read(source, name).language
    path = None if print_ else drafts.write(name, source, language)
    if json_:
        draft = None if path is None else str(path)
        show_json({"name": name, "language": language, "draft": draft, "source": source})
    elif path is None:
        show(source.removesuffix("\n"))
    else:
        say(f"{name}: a draft, {path}")
        say(f"next: go-ent tool edit {name}")
    return 0


def edit_command(name: ToolName, /, *, global_: GlobalFlag = False, json_: JsonFlag = False) -> int:
    """Edit a composed tool in your editor (`VISUAL`, `EDITOR`); it is then checked and tested, and saved if it passes.

    What does not pass stays as a draft, and editing continues with it. The tool itself is what it was until then.
    """
    drafts = Drafts(find_project("."))
    before = drafts.read(check_name(name))
    is_draft = before is not None
    language: Language = "python"
    if before is not None:
        say(f"continuing with the draft {drafts.path(name)}", err=True)
    else:
        before, language = _current(name)
    while True:
        path = drafts.write(name, before, language)
        if (code := _edited(path)) != 0:
            return _left(drafts, name, before, is_draft=is_draft, code=code)
        source = drafts.read(name)
        if source is None or source == before:
            say(f"{name}: nothing was changed", err=True)
            return _left(drafts, name, before, is_draft=is_draft, code=0)
        problems = _save(drafts, name, source, "global" if global_ else "project", json_=json_)
        if not problems:
            return 0
        if json_ or not _again():
            return _kept(drafts, name, problems, json_=json_)
        before, is_draft = source, True


def _edited(path: Path) -> int:
    try:
        code = edit(path)
    except NoEditor as error:
        say(f"go-ent: {error}", err=True)
        return SETUP_ERROR
    if code != 0:
        say(f"the editor ended with exit code {code}: nothing was saved", err=True)
    return min(abs(code), 1)


def _save(drafts: Drafts, name: str, source: str, scope: Literal["project", "global"], *, json_: bool) -> list[str]:
    """Check, test and save what was edited; why that was not done, if it was not."""
    problems: list[str] = []

    async def work(composer: Composer) -> int:
        try:
            data, language = source.encode("utf-8", "surrogateescape"), by_suffix(drafts.path(name).name)
            saved = await composer.compose(data, scope=scope, language=language)
        except ComposeRefused as error:
            problems.extend(error.problems)
            return 1
        drafts.remove(name)
        if json_:
            show_json({"name": saved.name, "version": saved.version, "saved": True, "examples": saved.examples})
        else:
            passed = f"{saved.examples} example{'' if saved.examples == 1 else 's'} passed"
            say(f"{saved.name}: version {saved.version}, {passed if saved.examples else 'no examples'} ({scope})")
        return 0

    with_composer(work, progress="checking, and running examples", quiet=json_)
    if problems and not json_:
        say(f"{name} was not saved:", err=True)
        for problem in problems:
            say(f"  - {problem}", err=True)
    return problems


def _current(name: str) -> tuple[str, Language]:
    """A tool's source as it is, of a broken one too, and its language."""
    found: list[tuple[str, Language]] = []

    async def work(composer: Composer) -> int:
        await composer.composed.load()
        broken = composer.composed.broken.get(name)
        if broken is not None:
            store = next(store for store in composer.stores if store.scope == broken.scope)
            text = await asyncio.to_thread(store.text, name)
            marks = {block.mark for block in toolfile.blocks(text)}
            found.append((text, "typescript" if "//" in marks else "python"))
            return 0
        try:
            file = (await composer.composed.get(name)).file
            found.append((file.source, file.language))
        except ToolNotFound as error:
            raise ToolNotFound(f"{error.message}; go-ent tool new {name} begins one") from None
        return 0

    with_composer(work, quiet=True)
    return found[0]


def _again() -> bool:
    if not at_terminal():
        return False
    say("edit it again? [Y/n] ", err=True, end="")
    answer = sys.stdin.readline(MAX_ANSWER)
    return bool(answer) and not is_no(answer)


def _left(drafts: Drafts, name: str, before: str, *, is_draft: bool, code: int) -> int:
    """Nothing was saved: a copy of the tool that nobody has changed is no draft."""
    if not is_draft and drafts.read(name) == before:
        drafts.remove(name)
    elif drafts.read(name) is not None:
        say(f"the draft is {drafts.path(name)}", err=True)
    return code


def _kept(drafts: Drafts, name: str, problems: list[str], *, json_: bool) -> int:
    path = drafts.path(name)
    if json_:
        show_json({"name": name, "saved": False, "problems": problems, "draft": str(path)})
    say(f"kept as a draft, {path}: go-ent tool edit {name} continues with it", err=True)
    return 1
