"""The settings of a DataLoader, each declared once: its default, its argument, what it needs, and its words."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, get_type_hints


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is declared of a setting, beside its name and its default, which is torch's."""

    argument: str = ""
    """The argument and attribute of a DataLoader that hold it; empty if it has none."""
    place: int | None = None
    """Where the argument stands if it is given without its name, counted from 0; None if it always has its name."""
    call: str = ""
    """The function of torch that is called before the training, where the setting is no argument."""
    needs_workers: bool = False
    """Whether a DataLoader may have it only together with workers."""
    needs_gpu: bool = False
    """Whether it uses the GPU, which a forked process must not."""
    without: Any = None
    """What a DataLoader has in its place where it may not have it."""
    column: str = ""
    """The column of an amount in a table of settings: more of it costs more. Of others, all but the default do."""
    named: str = ""
    """How settings are told from others in a sentence if they differ in this; `s` makes a plural."""

    def source(self, value: Any) -> str:
        """Return what sets it, as source; empty where nothing does in a script."""
        if self.argument:
            return f"{self.argument}={literal(value)}"
        return f"torch.{self.call}({value})" if self.call and value else ""


@dataclass(frozen=True)
class LoaderSettings:
    """How a DataLoader loads, but not what. A setting costs more than all that stand below it."""

    workers: Annotated[int, Setting(argument="num_workers", place=5, column="workers", named="{} worker{s}")] = 0
    prefetch_factor: Annotated[
        int, Setting(argument="prefetch_factor", needs_workers=True, column="prefetch", named="a prefetch of {}")
    ] = 2
    """The number of batches that each worker loads ahead."""
    pin_memory: Annotated[bool, Setting(argument="pin_memory", place=7, needs_gpu=True, without=False)] = False
    threads: Annotated[int, Setting(call="set_num_threads")] = 0
    """The number of threads of an operation in the training process; 0 for as many as the script has there."""
    persistent: Annotated[bool, Setting(argument="persistent_workers", needs_workers=True, without=False)] = False
    """Whether the workers are kept from epoch to epoch."""
    start_method: Annotated[str, Setting(argument="multiprocessing_context", place=11, needs_workers=True)] = ""
    """How workers are started: "fork", "spawn" or "forkserver"; empty for the process's own method."""
    worker_threads: Annotated[int, Setting()] = 0
    """The number of threads of an operation in a worker; 0 for as many as the script has there."""
    whole_batches: Annotated[bool, Setting()] = False
    """Whether each batch is taken out of tensors in memory at once, not put together from single samples."""

    # What they mean

    @property
    def ahead(self) -> int:
        """The number of batches that are loaded ahead."""
        return self.workers * self.prefetch_factor

    @property
    def cost(self) -> tuple[Any, ...]:
        """Orders settings by what they cost, the cheapest first."""
        values = vars(self).items()
        return tuple(value if SETTINGS[name].column else value != DEFAULTS[name] for name, value in values)

    @property
    def in_trial(self) -> "LoaderSettings":
        """The same without what makes no difference in a trial, whose workers are always kept."""
        unused = {name for name, setting in SETTINGS.items() if setting.needs_workers and not self.workers}
        return replace(self, **{name: DEFAULTS[name] for name in {"persistent", *unused}})

    def with_other_workers(self, workers: int) -> "LoaderSettings":
        """Return the same with other workers, of one thread each, that load ahead as torch has it by default."""
        return replace(self, workers=workers, worker_threads=1, prefetch_factor=LoaderSettings.prefetch_factor)

    # In the script

    @classmethod
    def of(cls, loader: Any) -> "LoaderSettings":
        """Return how a DataLoader loads."""
        held = {name: getattr(loader, setting.argument, None) for name, setting in SETTINGS.items() if setting.argument}
        return cls(**{name: _plain(name, value) for name, value in held.items() if value is not None})

    def give_to(self, loader: Any) -> None:
        """Let a copy of a DataLoader load with these settings; one without workers is for a forked process."""
        own = LoaderSettings.of(loader)
        for name, setting in SETTINGS.items():
            value = getattr(self, name)
            if not self.workers and (setting.needs_workers or setting.needs_gpu):
                value = setting.without
            if setting.argument in loader.__dict__:
                loader.__dict__[setting.argument] = value  # its own __setattr__ forbids to change it
            elif setting.argument and value is not None and value != getattr(own, name):
                setattr(loader, setting.argument, value or None)

    # In words

    def changed(self, present: "LoaderSettings") -> dict[str, Any]:
        """Return the settings that differ from the present ones, but for those that mean nothing without workers."""
        differ = {name: value for name, value in vars(self).items() if value != getattr(present, name)}
        return {name: value for name, value in differ.items() if self.workers or not SETTINGS[name].needs_workers}

    def sources(self, present: "LoaderSettings") -> dict[str, str]:
        """Return what sets those that differ from the present ones in a script, by their names."""
        texts = {name: SETTINGS[name].source(value) for name, value in self.changed(present).items()}
        return {name: text for name, text in texts.items() if text}

    def arguments(self, present: "LoaderSettings") -> dict[str, str]:
        """Return the source of each argument of a DataLoader that is to be set, where it differs."""
        changed = self.changed(present).items()
        return {SETTINGS[name].argument: literal(value) for name, value in changed if SETTINGS[name].argument}

    def calls(self, present: "LoaderSettings") -> list[str]:
        """Return what is to be called before the training, as source."""
        return [text for name, text in self.sources(present).items() if SETTINGS[name].call]

    def in_words(self, present: "LoaderSettings") -> str:
        """Return the number of workers, and what else differs from the present settings."""
        return ", ".join({"workers": SETTINGS["workers"].source(self.workers), **self.sources(present)}.values())

    def told_from(self, other: "LoaderSettings") -> str:
        """Return the name of these settings beside others: the first column of a table in which they differ."""
        for name, setting in COLUMNS.items():
            if (value := getattr(self, name)) != getattr(other, name):
                return setting.named.format(value, s="s" * (value != 1))
        return "the one to take"


def literal(value: Any) -> str:
    """Return a value as source, with the quotes that most people write."""
    return f'"{value}"' if isinstance(value, str) else str(value)


def cells(settings: Mapping[str, Any], nothing: str) -> list[str]:
    """Return the cells of the columns, given settings by their names; `nothing` where one needs workers."""
    return [
        nothing if setting.needs_workers and not settings["workers"] else str(settings[name])
        for name, setting in COLUMNS.items()
    ]


_HINTS = get_type_hints(LoaderSettings, include_extras=True)
SETTINGS: dict[str, Setting] = {name: hint.__metadata__[0] for name, hint in _HINTS.items()}
DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(LoaderSettings)}
COLUMNS = {name: setting for name, setting in SETTINGS.items() if setting.column}


def _plain(name: str, value: Any) -> Any:
    """The value of a setting that a DataLoader holds, as one of `LoaderSettings`; of a context, its start method."""
    return value.get_start_method() if hasattr(value, "get_start_method") else type(DEFAULTS[name])(value)
