"""Sandboxes for runs that were begun with another image, or with wider limits, than the project has now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from go_ent.composer.project.image import Images
from go_ent.sandbox import LimitError, Limits, Sandbox


class ResumedBoxes:
    """Of one composer, beside its own sandbox."""

    def __init__(self, box: Sandbox, images: Images) -> None:
        self._box, self._images = box, images
        self._boxes: dict[tuple[str, str], Sandbox] = {}

    def box_of(self, image: str, limits: Mapping[str, Any] | None = None) -> Sandbox:
        """With the image of that digest, and limits that were wider than the project's are now. The project's own, if
        it will do or the image is gone. May take long.
        """
        box = self._box
        fits = _fits(box.limits, limits)
        found = None if image in ("", box.image.digest) else self._images.find(image)
        if found is not None and box.image_of(found.language).digest == image:
            found = None
        if found is None and fits:
            return box
        chosen = box.limits if fits else Limits(**{**box.limits.model_dump(), **(limits or {})})
        key = image, chosen.model_dump_json()
        if key not in self._boxes:
            self._boxes[key] = Sandbox(
                limits=chosen,
                image=found or box.image,
                workers=box.workers,
                callers=box.callers,
                others=box.image_of,
            )
        return self._boxes[key]

    def close(self) -> None:
        for box in self._boxes.values():
            box.close()


def _fits(limits: Limits, narrower: Mapping[str, Any] | None) -> bool:
    try:
        limits.narrowed(dict(narrower or {}))
    except LimitError:
        return False
    return True
