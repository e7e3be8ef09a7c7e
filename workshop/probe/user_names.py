"""The names of modules and other things, as the user's code calls them."""

from collections.abc import Iterable
from types import FrameType

from torch import nn

from workshop.probe.user_code import is_user_code


def name_in(frame: FrameType | None, thing: object) -> str:
    """Return the name of something in a frame of user code, or in one that has called it; else that of its class."""
    while frame is not None:
        if is_user_code(frame.f_code.co_filename):
            own = frame.f_locals.get("self")
            parts = {f"self.{name}": each for name, each in _attributes(own).items()}
            for name, value in {**frame.f_globals, **parts, **frame.f_locals}.items():
                if value is thing and name != "self":
                    return name
        frame = frame.f_back
    return type(thing).__name__


def names_of_parts(models: Iterable[nn.Module], parameters: set[nn.Parameter], frame: FrameType | None) -> list[str]:
    """Return the names of the outermost modules of some models that train no other parameters than these.

    Args:
        models: the modules that the script calls.
        parameters: the parameters that the modules may train.
        frame: as for `name_in`; a part of a model has a dotted name, such as `model.encoder.0`.
    """
    found: list[str] = []
    for model in models:
        name = name_in(frame, model)
        covered: set[nn.Module] = set()
        for path, module in model.named_modules():
            trained = [each for each in module.parameters() if each.requires_grad]
            if module in covered or not trained or not parameters.issuperset(trained):
                continue
            covered.update(module.modules())
            found.append(f"{name}.{path}" if path else name)
    return found


def _attributes(thing: object) -> dict[str, object]:
    own = getattr(thing, "__dict__", {})
    return {**own, **own.get("_modules", {})}
