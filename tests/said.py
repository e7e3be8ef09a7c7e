"""What is said of each script that is refused, by the kinds of reasons; a reason here has the figures that matter."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from workshop.judge.asked_proof import AskedReason
from workshop.judge.draw_proof import DrawReason
from workshop.judge.drawn_anew import NoiseReason
from workshop.judge.input_proof import InputReason
from workshop.judge.item_proof import ItemReason
from workshop.judge.optimizer_proof import OptimizerReason
from workshop.judge.order_proof import OrderReason
from workshop.judge.output_proof import OutputReason
from workshop.judge.photo_proof import PhotoReason
from workshop.judge.reasons import Reason, ReasonKind
from workshop.judge.sample_proof import SampleReason
from workshop.judge.step_proof import StepReason
from workshop.judge.work_proof import WorkReason

T = TypeVar("T")
CROP = "RandomResizedCrop", "scale"


class MadeReason(ReasonKind):
    """What the tests' own checks say."""

    SAYS = "{0}"


def is_said(expected: ReasonKind | Reason, found: Iterable[Reason]) -> bool:
    """Whether one of the reasons, or of those in them, is of this kind, about the same and with these figures."""
    wanted = expected if isinstance(expected, Reason) else expected()
    return any(
        part.kind is wanted.kind and wanted.about in ((), part.about) and wanted.figures.items() <= part.figures.items()
        for reason in found
        for part in reason.parts
    )


def labels(found: Iterable[Reason]) -> list[str]:
    """The names of the kinds, which are the same for a check that is loaded anew, as those of the parts are."""
    return [part.kind.label for reason in found for part in reason.parts]


def _by_script(groups: Mapping[str, T]) -> dict[str, T]:
    return {script: said for scripts, said in groups.items() for script in scripts.split()}


OF_CHEATS: dict[str, dict[str, ReasonKind | Reason]] = {
    "part3": {
        "activations_rounded gradients_rounded": StepReason.LOWER_PRECISION,
        "crop_in_the_corner crop_of_its_own": DrawReason.OTHER_RESULT("RandomResizedCrop"),
        "kernels_replaced policies_left_out": DrawReason.OTHER_RESULT("AutoAugment"),
        "crops_chosen": DrawReason.CHOSEN("RandomResizedCrop"),
        "policies_chosen seeds_chosen": DrawReason.CHOSEN("AutoAugment"),
        "decoded_small_now_and_then decoded_by_nearest decoded_in_grey decoded_small": ItemReason.OFF,
        "images_shrunk_and_enlarged greyed_afterwards normalised_otherwise not_normalised": ItemReason.OFF,
        "resize_left_out": DrawReason.OTHER_SIZE("AutoAugment", original="73 x 73"),
        "images_shrunk": WorkReason.OTHER_SHAPE(candidate="3 x 32 x 32", original="3 x 64 x 64"),
        "decoded_with_loss": DrawReason.ADDED("JPEG", drawn=92, pictures=92),
        "crop_on_top": DrawReason.ADDED("RandomCrop"),
        "transform_shared": DrawReason.NOT_OWN,
        "transform_weakened": DrawReason.OTHER_SETTING(*CROP, candidate="(0.99, 1.0)", original="(0.08, 1.0)"),
        "setting_changed_later": DrawReason.OTHER_SETTING(*CROP, candidate="(0.95, 1.0)", original="(0.08, 1.0)"),
        "workers_draw_alike draw_repeated": DrawReason.STATE_USED_BEFORE,
        "pictures_left_black some_pictures_left_black": ItemReason.OFF,
        "augmentation_frozen": InputReason.AGAIN_IN_EPOCHS,
        "epochs_prepared epochs_prepared_in_each_run": DrawReason.KEPT("AutoAugment"),
        "targets_exchanged": ItemReason.OTHER_INPUTS,
        "sleep_at_start sleep_elsewhere sleep_in_constructor sleep_only_at_first": PhotoReason.NO_WAIT,
        "sleep_removed": PhotoReason.NO_WAIT(quick=92, reads=92),
        "sleep_patched": WorkReason.CLOCK_REPLACED("time.sleep"),
        "perf_counter_patched": WorkReason.CLOCK_REPLACED("time.perf_counter"),
        "orders_take_turns not_shuffled epochs_from_memory": OrderReason.REPEATED,
        "batches_always_the_same": OrderReason.SAME_BATCHES,
        "batches_reused": WorkReason.OTHER_NUMBER_OF_ITEMS(candidate=30, original=23),
        "every_second_batch_skipped every_third_batch_skipped": WorkReason.BATCHES_SKIPPED(candidate=15, original=23),
        "lines_left_out": OutputReason.FEWER_LINES("metrics.csv"),
        "last_batch_dropped": WorkReason.LAST_BATCH_DROPPED(candidate=16, original=23),
        "batch_size_changed": WorkReason.OTHER_BATCH_SIZE(candidate=16, original=8),
        "backward_left_out": WorkReason.OTHER_BACKWARDS,
        "optimizer_every_other_batch": WorkReason.OTHER_STEPS,
        "optimizer_another": OptimizerReason.OTHER_OPTIMIZER("SGD", "AdamW"),
        "parameters_in_two_groups": OptimizerReason.OTHER_SETTING_OF_GROUP("weight_decay", candidate="0", tensors=61),
        "optimizer_pretends": WorkReason.PARAMETERS_STILL(tensors=62, of=62),
        "head_only_now_and_then": WorkReason.PARAMETERS_STILL(tensors=60, of=62),
        "momentum_forgotten optimizer_state_rounded": WorkReason.STATE_TOUCHED,
        "statistics_reset": WorkReason.BUFFERS_TOUCHED,
        "weights_changed_after_the_step": WorkReason.PARAMETERS_TOUCHED,
        "batch_norm_forgets": StepReason.OTHER_BUFFERS,
        "gradients_pile_up layers_frozen": StepReason.OTHER_GRADIENTS,
        "lower_precision": WorkReason.AUTOCAST,
        "smaller_model": WorkReason.OTHER_MODEL(candidate=4_924_773, original=11_195_493),
    },
    "part10": {
        "buffers_of_one_rank buffers_reset": StepReason.OTHER_BUFFERS,
        "batches_not_shared": WorkReason.OTHER_BATCH_SIZE(candidate=16, original=8),
        "every_rank_sees_all": WorkReason.OTHER_NUMBER_OF_ITEMS(candidate=46, original=23),
        "gradients_not_averaged": WorkReason.RANKS_APART,
        "item_dealt_twice": WorkReason.OTHER_NUMBER_OF_ITEMS(candidate=24, original=23),
        "order_kept": OrderReason.REPEATED,
        "rank_stops_early": WorkReason.RANKS_OUT_OF_STEP(counts="rank 0 takes 3, rank 1 takes 2"),
    },
    "part12": {
        "activations_rounded": StepReason.LOWER_PRECISION,
        "fewer_sequences": WorkReason.BATCHES_SKIPPED(candidate=24, original=48),
        "layer_frozen": WorkReason.PARAMETERS_STILL(tensors=2, of=6),
        "less_ahead": WorkReason.OTHER_ITEMS(items=48, missing=48),
        "lower_precision": WorkReason.AUTOCAST(where=""),
        "memory_cut": StepReason.OTHER_GRADIENTS,
        "pictures_cropped": WorkReason.OTHER_SHAPE(candidate="4 x 24 x 24", original="4 x 48 x 48"),
        "smaller_batch": WorkReason.OTHER_BATCH_SIZE(candidate=8, original=16),
        "smaller_model": WorkReason.OTHER_MODEL,
        "steps_left_out": WorkReason.OTHER_STEPS,
    },
}
OF_CHEATS = {part: _by_script(groups) for part, groups in OF_CHEATS.items()}
"""Of each cheat, by the part that judges it. Those of part 9 are in parts/test_part9.py."""

OF_UNSEEN_WORK: dict[str, ReasonKind | Reason] = {
    "asyncio_sleep": PhotoReason.WAIT_UNSEEN,
    "fully_sharded": WorkReason.FLAT_PARAMETERS,
    "own_loss": WorkReason.TARGETS_UNSEEN,
    "transform_dropped": DrawReason.NOT_SEEN("AutoAugment"),
}
"""Of work that may be the same, and cannot be seen."""

BESIDE = InputReason.BESIDE_THE_FIRST

OF_INPUTS: dict[str, tuple[ReasonKind, ...]] = _by_script(
    {
        "long_half_noise long_kinds_of_others long_values_exchanged": (ItemReason.OTHER_INPUTS,),
        "table_mostly_noise table_rounded": (ItemReason.OTHER_INPUTS,),
        "table_rows_exchanged table_targets_shuffled": (ItemReason.OTHER_INPUTS,),
        "rivals_of_few rivals_without_noise": (ItemReason.OTHER_INPUTS,),
        "sentences_words_left_out": (InputReason.OF_NO_ITEM,),
        "sentences_kinds_shuffled": (InputReason.OF_ANOTHER_ITEM,),
        "long_few_rows stream_repeated words_little_of_the_text": (InputReason.AGAIN_IN_EPOCH,),
        "waves_stale": (InputReason.AGAIN_IN_EPOCHS,),
        "words_same_windows": (OrderReason.SAME_NEIGHBOURS,),
        "waves_of_one_kind_together": (InputReason.BATCH_ALIKE_IN_TARGET,),
        "points_turned_together": (InputReason.BATCH_ALIKE_IN_VALUES,),
        "crops_at_few_places waves_without_shift": (SampleReason.AGAIN,),
        "crops_noise_of_worker": (SampleReason.STEPS_AGAIN,),
        "noise_few_shapes waves_stale_with_noise meters_noise_in_pairs": (SampleReason.STEPS_AGAIN,),
        "meters_noise_of_worker meters_noise_uniform": (NoiseReason.DRAWN_OTHERWISE,),
        "signals_noise_from_a_pool signals_noise_uniform": (NoiseReason.DRAWN_OTHERWISE,),
        "noise_kept stream_few_kinds": (SampleReason.OTHER_TARGETS,),
        "noise_little signals_less_noise": (SampleReason.LESS_VARIED,),
        "noise_of_others waves_one_of_each_kind words_targets_of_others": (SampleReason.UNRELATED,),
        "pairs_of_any": (BESIDE, SampleReason.OTHER_INPUTS),
        "signals_of_others signals_some_silent signals_stale_with_noise": (SampleReason.OTHER_INPUTS_OF_TARGET,),
        "points_turned_by_quarters": (SampleReason.OTHER_VALUES,),
        "stream_kinds_of_others stream_on_a_line waves_mostly_noise": (SampleReason.UNLIKE,),
        "waves_values_exchanged words_few_words words_scrambled": (SampleReason.UNLIKE,),
        "sentences_cut": (WorkReason.SMALLER_INPUTS,),
        "long_first_third": (AskedReason.OTHER_LENGTH,),
        "long_first_third_of_sampler": (AskedReason.AGAIN,),
        "long_from_a_buffer": (AskedReason.NEIGHBOURS_IN_BATCH,),
        "echoes_not_shuffled": (OrderReason.REPEATED,),
        "echoes_coarse twins_second_from_first": (ItemReason.DRAWN_OTHERWISE,),
        "pairs_with_rare_ones meters_one_noise_a_batch": (ItemReason.DRAWN_OTHERWISE,),
        "echoes_kept": (InputReason.AGAIN_IN_EPOCHS,),
        "outlines_of_a_batch_alike": (SampleReason.AGAIN,),
        "twins_teacher_now_and_then": (StepReason.OTHER_UPDATE,),
        "echoes_average_now_and_then": (StepReason.OTHER_UPDATE,),
        "words_short_later": (WorkReason.OTHER_SHAPE, WorkReason.IN_SOME_PASSES),
    }
)
"""Of the inputs of each cheat that `compare` judges: the kind of the one reason, and of those in it."""

NOTHING_CHANGED = "nothing has been changed yet"
ANOTHER_LINE = "another line takes more"
"""Of what the walks through the parts read in the terminal."""

OF_OTHER_PROGRAMS = ("Busy machine: ", "other programs were at work")
"""Of what other programs do meanwhile, such as another test."""
