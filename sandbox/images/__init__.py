"""Guest images: built from the guest's sources, compiled once per machine, cached by content."""

from go_ent.sandbox.images.cache import (
    Image,
    cache_folder,
    find_image,
    list_images,
    note_project,
    projects_of,
    prune_images,
)
from go_ent.sandbox.images.ensure import adopt_image, ensure_image

__all__ = [
    "Image",
    "adopt_image",
    "cache_folder",
    "ensure_image",
    "find_image",
    "list_images",
    "note_project",
    "projects_of",
    "prune_images",
]
