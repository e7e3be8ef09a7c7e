"""What the workshop remembers between commands, in a folder beside the participant's script."""

import json
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from workshop.experiment import STAMP

FOLDER = ".workshop"


class State:
    """A JSON object on disk beside a script; values of later versions are kept, and a damaged file is set aside."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FOLDER / "state.json"
        self.values: dict[str, Any] = self._read()

    def _read(self) -> dict[str, Any]:
        try:
            values = json.loads(self.path.read_text())
            if isinstance(values, dict):
                return values
            raise ValueError("not an object")
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            aside = self.path.with_name(f"state-damaged-{datetime.now():{STAMP}}.json")
            try:
                self.path.replace(aside)
                print(f"{self.path} was damaged ({error}); it is now {aside.name}", file=sys.stderr)
            except OSError:
                print(f"{self.path} cannot be read ({error}); going on without", file=sys.stderr)
            return {}

    def get(self, *keys: str) -> Any:
        """Return the value below some nested keys; None if there is none."""
        value: Any = self.values
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def put(self, value: Any, *keys: str) -> None:
        """Remember a value below some nested keys; a folder that cannot be written is only warned of."""
        self.values = self._read() | {"schema_version": 1}  # another command may have written meanwhile
        inner = self.values
        for key in keys[:-1]:
            if not isinstance(inner.get(key), dict):
                inner[key] = {}
            inner = inner[key]
        inner[keys[-1]] = value
        growing = self.path.with_name(f"state-{os.getpid()}.tmp")
        try:
            self.path.parent.mkdir(exist_ok=True)
            growing.write_text(json.dumps(self.values, indent=2) + "\n")
            growing.replace(self.path)
        except OSError as error:
            print(f"cannot remember this in {self.path}: {error.strerror}", file=sys.stderr)
