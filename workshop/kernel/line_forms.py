"""A line profile in each form of an answer, made by one process of its own: in a kernel, rich prints elsewhere.

Its words are the profile, the folder for the files, and the options of `workshop lines` as JSON.
"""

import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from workshop.cli.lines_command import lines
from workshop.errors import plain_errors

TEXT, VALUES, PAGE = "text", "values.json", "page.html"
"""The files."""


def main() -> None:
    """Write the files."""
    profile, folder, view = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
    forms = {
        folder / TEXT: view,
        folder / VALUES: view | {"as_json": True},
        Path(os.devnull): view | {"by": None, "html": folder / PAGE},
    }
    with plain_errors():
        for file, options in forms.items():
            with file.open("w", encoding="utf-8") as stdout, Path(os.devnull).open("w", encoding="utf-8") as nowhere:
                stderr = stdout if file.name == TEXT else nowhere  # with notes, which are said once
                with redirect_stdout(stdout), redirect_stderr(stderr):
                    lines([profile], **options)


if __name__ == "__main__":
    main()
