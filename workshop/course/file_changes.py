"""Files that are being edited."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

INTERVAL_S = 1.0


def changes(paths: Sequence[Path], interval_s: float = INTERVAL_S) -> Iterator[None]:
    """Once now, and then each time that one of the files has another content.

    It looks at the content again and again: notices of the system do not reach WSL, containers and network folders, and
    the times of files there are not to be trusted. An editor that removes a file to write it anew, or writes it in
    pieces, is waited for: what counts is content that stays for an interval.
    """
    known: list[bytes | None] | None = None
    while True:
        before = [_content(path) for path in paths]
        if before != known and before[0] is not None:
            if known is not None:
                time.sleep(interval_s)
                if [_content(path) for path in paths] != before:
                    continue
            known = before
            yield
        time.sleep(interval_s)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
