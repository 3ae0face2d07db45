"""Questions to people, one file each; any process can read them. The tokens in it are secrets."""

import json
import os
from pathlib import Path


class Inbox:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, name: str, **question: object) -> None:
        """Keeps a question that nobody is shown yet: its token is not good before the call is deferred."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = os.open(self._folder / f"{name}.draft", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(file, "w", encoding="utf-8") as draft:
            json.dump({"name": name, **question}, draft)

    def publish(self, name: str) -> None:
        """Shows a saved question."""
        (self._folder / f"{name}.draft").rename(self._folder / f"{name}.json")
