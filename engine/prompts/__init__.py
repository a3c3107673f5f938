"""What is sent to an agent: roles, skills, files and earlier outputs, put into templates within a number of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# Not lazily like the others: `roles` would be the module of that name once anybody imports it.
from engine.prompts.roles import Role, find_role, roles

if TYPE_CHECKING:
    from engine.prompts.chunker import Chunk, Part, pack
    from engine.prompts.files import FilePart, read_files
    from engine.prompts.render import Prompt, Prompts
    from engine.prompts.skills import Skill, all_skills, find_skills

_HOMES = {
    "chunker": ("Chunk", "Part", "pack"),
    "files": ("FilePart", "read_files"),
    "render": ("Prompt", "Prompts"),
    "skills": ("Skill", "all_skills", "find_skills"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
__all__ = [
    "Chunk",
    "FilePart",
    "Part",
    "Prompt",
    "Prompts",
    "Role",
    "Skill",
    "all_skills",
    "find_role",
    "find_skills",
    "pack",
    "read_files",
    "roles",
]


def __getattr__(name: str) -> Any:
    # Lazily: what one program does not use, it does not import.
    if name not in _HOME_OF:
        raise AttributeError(f"module 'engine.prompts' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"engine.prompts.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
