"""Commands that were installed along with the workshop."""

import shutil
import sysconfig


def find_tool(name: str) -> str | None:
    """The command of that name that was installed for this very Python; else the first on the path, if there is one."""
    return own_tool(name) or shutil.which(name)


def own_tool(name: str) -> str | None:
    """The command of that name that was installed for this very Python."""
    return shutil.which(name, path=sysconfig.get_path("scripts"))
