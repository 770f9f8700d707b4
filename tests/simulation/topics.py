"""The topics of a seed, and what each is told about keeping.

Topics of different retention share segments: lasting ones, brief ones that keep seconds, sized ones that keep some bytes, and mortal ones,
which are deleted and made anew. Their settings are changed now and then.
"""

from __future__ import annotations

import random

from tests.history.events import Settings
from tests.simulation.load import Load


class Topics:
    """By name, with their settings."""

    def __init__(self, source: random.Random, load: Load) -> None:
        self._load = load
        week = Settings().retention
        lasting = [(f"topic-{number}", Settings(week)) for number in range(load.topics)]
        brief = [(f"brief-{number}", Settings(load.retention_seconds)) for number in range(load.brief_topics)]
        sized = [(f"sized-{number}", Settings(week, load.retention_bytes)) for number in range(load.sized_topics)]
        mortal = [(f"mortal-{number}", Settings(week)) for number in range(load.mortal_topics)]
        self.settings: dict[str, Settings] = {}
        for name, settings in (*lasting, *mortal, *brief, *sized):
            window = min(load.window_seconds, settings.retention)
            self.settings[name] = settings._replace(deduplication=window, partitions=source.randint(1, load.partitions_max))
        self.mortal = [name for name, _ in mortal]

    @property
    def all(self) -> dict[str, int]:
        """With their partitions."""
        return {name: settings.partitions for name, settings in self.settings.items()}

    def altered(self, source: random.Random, name: str) -> Settings:
        """Other settings for a topic; from here on they are its own."""
        settings, load = self.settings[name], self._load
        if name.startswith("brief"):
            settings = settings._replace(retention=load.retention_seconds * source.choice((0.5, 1.0, 2.0)))
        elif name.startswith("sized"):
            settings = settings._replace(retention_bytes=load.retention_bytes * source.choice((1, 2)))
        window = min(source.choice((load.window_seconds, 2 * load.window_seconds)), settings.retention)
        self.settings[name] = settings._replace(deduplication=window)
        return self.settings[name]
