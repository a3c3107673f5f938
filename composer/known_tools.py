"""The tools of a project as far as they are known without starting anything: grants that fit none of them, and composed
tools that require what has changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from go_ent.composer.catalogue.grants import matches, unmatched
from go_ent.composer.composed.source import Composed
from go_ent.composer.composed.store import composed_stores
from go_ent.composer.composed.tool_store import ToolStore
from go_ent.composer.config import Config
from go_ent.composer.project.items import apart
from go_ent.composer.project.trust import is_trusted
from go_ent.composer.sources.configured import api_source, server_source
from go_ent.composer.sources.listing import ListingStore

OURS = {"engine": ["engine.execute", "engine.budget"], "results": ["results.read"]}


def unmatched_grants(
    project: Path, config: Config, further: Iterable[str] = (), *, approvals: bool = True
) -> list[str]:
    """The grants of a project that fit no tool, and *further* ones, each with why; with *approvals*, also what needs
    approval. A server whose tools are not known yet may have any. Blocks.
    """
    patterns = [*config.allow, *(config.approve if approvals else ()), *further]
    namespaces = {pattern.partition(".")[0] for pattern in patterns if "." in pattern}
    return unmatched(patterns, known_tools(project, config, namespaces)) if patterns else []


def known_tools(project: Path, config: Config, namespaces: Iterable[str]) -> dict[str, list[str] | None]:
    """The full names of the tools of each namespace; None of one that was never asked, and of those that are not among
    *namespaces*. "" is for tools without one.
    """
    found: dict[str, list[str] | None] = {**OURS, **dict.fromkeys((*config.unusable, *config.servers, *config.apis))}
    store = ListingStore(project)
    trusted = is_trusted(project)  # of a folder that is not, no file is opened to see whether a copy is of it
    for name in set(namespaces) & {*config.servers, *config.apis} if trusted else ():
        with apart(name, {}):
            server = config.servers.get(name)
            source = (
                api_source(name, config.apis[name], store)
                if server is None
                else server_source(name, server, project, store)
            )
            copy = source.kept()
            found[name] = None if copy is None else [*copy.listing.entries]
    composed = {"summarize"}
    for shelf in composed_stores(project):
        with apart(str(shelf.folder), {}):
            composed |= shelf.scan().keys()
    return {**found, "": sorted(composed)}


def outdated(tools: Iterable[Composed], stores: Iterable[ToolStore], listings: ListingStore) -> dict[str, list[str]]:
    """The composed tools that require tools whose interface has changed since they were saved or last tested, and which
    those are. Blocks.
    """
    wanted = [(tool, [name for name in tool.interface.requires if "." in name]) for tool in tools]
    changed: dict[str, float] = {}
    for space in {name.partition(".")[0] for _, names in wanted for name in names}:
        copy = listings.load(space, "")
        changed |= {} if copy is None else copy.changed
    reviewed = listings.reviewed() if changed else {}
    found = {}
    for tool, names in wanted:
        affected = [one for one in changed if any(matches(name, one) for name in names)]
        saved = [
            one.saved for store in stores if affected and store.scope == tool.scope for one in store.versions(tool.name)
        ]
        since = max([reviewed.get(tool.name, 0.0), *saved])
        if late := sorted(one for one in affected if changed[one] > since):
            found[tool.name] = late
    return found
