"""Puts a wrapper in place of somebody's function, and takes it away again."""

import functools
from collections.abc import Callable
from typing import Any


def replace_function(owner: Any, name: str, wrapper: Callable[..., Any]) -> Callable[[], None]:
    """Put a function in place of another, which it calls; return what puts the other back."""
    original = getattr(owner, name)
    is_own = name in getattr(owner, "__dict__", {})  # else it is that of a class above, which others may replace
    functools.update_wrapper(wrapper, original)

    def put_back() -> None:
        if getattr(owner, name) is wrapper:  # else somebody has wrapped it since, and it passes calls on
            setattr(owner, name, original) if is_own else delattr(owner, name)

    setattr(owner, name, wrapper)
    return put_back
