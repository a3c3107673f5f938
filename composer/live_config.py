"""The grants of an open composer follow its project's configuration: a long-lived server hears of `go-ent grant`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from go_ent.composer.config import Config, read_config
from go_ent.composer.errors import ConfigError
from go_ent.composer.project.items import apart
from go_ent.composer.project.layers import CONFIG

if TYPE_CHECKING:
    from go_ent.composer.composer import Composer

log = logging.getLogger("go_ent.composer")
Stamp = tuple[int, int, int] | None


class LiveConfig:
    """Looks whether the configuration file is another than when it was last read.

    Grants, approvals, `expose` and added servers take effect; runs under way keep what they began with. Other settings
    need a restart. A file that can't be read changes nothing: what was granted stays, and the log says why.
    """

    def __init__(self, composer: Composer, *, follows: bool) -> None:
        """Made before the file is first read. It *follows* nothing where a program gave the settings."""
        self._composer, self._follows = composer, follows
        self._lock = asyncio.Lock()
        self._stamp = self._now()

    def _now(self) -> Stamp:
        with contextlib.suppress(OSError):
            found = (self._composer.project / CONFIG).stat()
            return found.st_mtime_ns, found.st_size, found.st_ino
        return None

    async def follow(self) -> bool:
        """Take over what has changed; whether anything has."""
        if not self._follows or self._now() == self._stamp:
            return False
        async with self._lock:
            stamp = self._now()
            if stamp == self._stamp:
                return False
            self._stamp = stamp
            composer = self._composer
            try:
                config = await asyncio.to_thread(read_config, composer.project, trusted=composer.trusted)
            except (ConfigError, OSError) as error:
                log.warning("the configuration has changed and can't be read; the grants stay as they were: %s", error)
                return False
            return self._take_over(config)

    def _take_over(self, config: Config) -> bool:
        composer, before = self._composer, self._composer.config
        now = replace(
            before, allow=config.allow, approve=config.approve, servers={**config.servers}, apis={**config.apis}
        )
        if now == before:
            return False
        known = {source.namespace for source in composer.catalogue.sources}
        composer.config = now
        composer.grants = composer.code.grants = composer.catalogue.project_grants = now.grants
        composer.catalogue.version += 1
        if composer.trusted:
            for namespace in (*now.servers, *now.apis):
                if namespace not in known:
                    with apart(namespace, composer.catalogue.problems):
                        composer.catalogue.add(composer.configured(namespace))
        log.info("the grants are now: %s", ", ".join(now.allow) or "none")
        return True
