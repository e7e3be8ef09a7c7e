"""Why a verdict is as it is: a kind and its figures. The sentence is made of them last, where it is shown."""

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

MASK = "…"
"""What stands for whatever is not in the workshop's own words."""

UNSEEN = True
"""Stands behind the words of a kind that is no accusation: something cannot be seen, and how to make it visible."""


class ReasonKind(enum.Enum):
    """What a check may say: each check declares its kinds in an enum of its own, with the words of their sentences.

    The words are a format string. Numbered fields are what it is about, such as the name of a transform: the same kind
    about the same things is the same reason. Named fields are figures. Called with both, a kind makes a `Reason`.
    """

    def __init__(self, words: str, is_unseen: bool = False) -> None:
        self.words, self.is_unseen = words, is_unseen

    @property
    def label(self) -> str:
        """Its name as it stands in JSON, after that of its enum: "order-repeated"."""
        return f"{type(self).__name__.removesuffix('Reason')}-{self.name}".lower().replace("_", "-")

    def __call__(self, *about: Any, **figures: Any) -> "Reason":
        """Return a reason of this kind, about some things, with some figures."""
        return Reason(self, about, figures)


@dataclass(frozen=True)
class Reason:
    """A kind with its figures; of either, some may be reasons in turn, whose sentences become part of this one's."""

    kind: ReasonKind
    about: tuple[Any, ...] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.kind.words.format(*self.about, **self.figures)

    @property
    def is_unseen(self) -> bool:
        """Whether it says what cannot be seen, and so proves nothing."""
        return self.kind.is_unseen

    @property
    def parts(self) -> "Iterator[Reason]":
        """It, and the reasons in it."""
        yield self
        for each in (*self.about, *self.figures.values()):
            if isinstance(each, Reason):
                yield from each.parts

    @property
    def subject(self) -> tuple[Any, ...]:
        """What is the same in two reasons that differ only in their figures."""
        return self.kind, *(each.subject if isinstance(each, Reason) else each for each in self.about)

    @property
    def told(self) -> str:
        """The sentence in the workshop's own words alone: for all else, as it may be a participant's, stands `MASK`."""
        return self.kind.words.format(*map(_told, self.about), **{key: _told(of) for key, of in self.figures.items()})


class _Mask:
    """Stands for a figure, whatever is taken of it and in whichever format."""

    def __format__(self, _: str) -> str:
        return MASK

    def __repr__(self) -> str:
        return MASK

    def __getitem__(self, _: object) -> "_Mask":
        return self


def _told(value: Any) -> Any:
    """Return what stands for a value in a sentence without the words of others."""
    return value.told if isinstance(value, Reason) else value if value == "" else _Mask()
