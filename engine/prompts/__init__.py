"""What is sent to an agent: roles, skills, files and earlier outputs, put into templates within a number of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

# Not lazily like the others: `roles` would be the module of that name once anybody imports it.
from go_ent.engine.prompts.roles import Role, find_role, roles
from go_ent.lazy import lazily

if TYPE_CHECKING:
    from go_ent.engine.prompts.chunker import Chunk, Part, pack
    from go_ent.engine.prompts.files import FilePart, read_files
    from go_ent.engine.prompts.render import Prompt, Prompts
    from go_ent.engine.prompts.skills import Skill, all_skills, find_skills

HOMES = {
    "chunker": ("Chunk", "Part", "pack"),
    "files": ("FilePart", "read_files"),
    "render": ("Prompt", "Prompts"),
    "skills": ("Skill", "all_skills", "find_skills"),
}
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
if not TYPE_CHECKING:  # a name that is not there is an error for type checkers
    __getattr__, __dir__ = lazily(__name__, HOMES)
