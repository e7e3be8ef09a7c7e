"""What other programs used of the cores while a recording was made, in a hidden file beside the recording.

The formats of py-spy and torch.profiler have no place for it. There is no such file where the machine was quiet.
"""

import json
from pathlib import Path

from workshop.runs.other_load import OtherLoad


def keep(load: OtherLoad, *recordings: Path) -> None:
    """Remember how busy the machine was while these files were recorded."""
    for path in map(_beside, recordings):
        if load.busy:
            path.write_text(json.dumps(load.as_dict()), encoding="utf-8")
        else:
            path.unlink(missing_ok=True)  # of a recording of that name that has been deleted


def busy_note(recording: Path) -> str:
    """Return the sentence about a machine that was busy; an empty text if it was quiet, or if that is not known."""
    try:
        return str(OtherLoad.of_dict(json.loads(_beside(recording).read_text(encoding="utf-8"))))
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def _beside(recording: Path) -> Path:
    return recording.with_name(f".{recording.name}.load")
