"""Commands that were installed along with the workshop."""

import shutil
import sysconfig


def find_executable(name: str) -> str | None:
    """Return the path of the command installed for this very Python; else of the first on the path, if there is one."""
    return own_executable(name) or shutil.which(name)


def own_executable(name: str) -> str | None:
    """Return the path of the command installed for this very Python, if there is one."""
    return shutil.which(name, path=sysconfig.get_path("scripts"))
