"""Watch some steps for what is computed in vain, and try what the steps would take without it: a file for each.

They come after the measured steps, as they cost time: `user_stack_here` walks the stack of each call.
"""

from workshop.probe.watchers.embedding_rows import EmbeddingRows
from workshop.probe.watchers.gradient_use import GradientUse
from workshop.probe.watchers.ignored_targets import IgnoredTargets
from workshop.probe.watchers.output_use import OutputUse
from workshop.probe.watchers.padded_inputs import PaddedInputs
from workshop.probe.watchers.repeated_calls import RepeatedCalls
from workshop.probe.watchers.watcher import Watcher

WATCHERS: tuple[type[Watcher], ...] = (
    GradientUse,
    EmbeddingRows,
    OutputUse,
    RepeatedCalls,
    PaddedInputs,
    IgnoredTargets,
)
