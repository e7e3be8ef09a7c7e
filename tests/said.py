"""What is said of each script that is refused, by the kinds of reasons; a reason here has the figures that matter."""

from collections.abc import Iterable

from workshop.judge.chosen_draws import DrawReason
from workshop.judge.drawn_anew import NoiseReason
from workshop.judge.input_proof import InputReason
from workshop.judge.optimizer_proof import OptimizerReason
from workshop.judge.order_proof import OrderReason
from workshop.judge.picture_proof import PictureReason
from workshop.judge.proof import WorkReason
from workshop.judge.reasons import Reason, ReasonKind
from workshop.judge.sample_proof import SampleReason
from workshop.judge.step_proof import StepReason
from workshop.judge.transform_proof import TransformReason

TO_NO_RESULT = "Tried, to no result: "
"""Of the sentences of `measure`, the beginning of one that has no kind."""


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


OF_CHEATS: dict[str, dict[str, ReasonKind | Reason]] = {
    "part3": {
        "activations_rounded": StepReason.LOWER_PRECISION,
        "crop_in_the_corner": TransformReason.OTHER_RESULT("RandomResizedCrop"),
        "crops_chosen": DrawReason.CHOSEN("RandomResizedCrop"),
        "crop_of_its_own": TransformReason.OTHER_RESULT("RandomResizedCrop"),
        "decoded_small_now_and_then": TransformReason.OTHER_DECODED,
        "gradients_rounded": StepReason.LOWER_PRECISION,
        "momentum_forgotten": WorkReason.STATE_TOUCHED,
        "normalised_otherwise": PictureReason.OTHER_SCALE,
        "optimizer_state_rounded": WorkReason.STATE_TOUCHED,
        "orders_take_turns": OrderReason.REPEATED,
        "pictures_left_black": PictureReason.BLANK,
        "workers_draw_alike": TransformReason.STATE_USED_BEFORE,
        "augmentation_frozen": PictureReason.FROZEN,
        "backward_left_out": WorkReason.OTHER_BACKWARDS,
        "batch_size_changed": WorkReason.OTHER_BATCH_SIZE(candidate=8, original=4),
        "batch_norm_forgets": StepReason.OTHER_BUFFERS,
        "batches_always_the_same": OrderReason.SAME_BATCHES,
        "batches_reused": WorkReason.OTHER_NUMBER_OF_ITEMS(candidate=14, original=11),
        "crop_on_top": PictureReason.DRAW_KEPT,
        "decoded_by_nearest": TransformReason.OTHER_DECODED,
        "decoded_in_grey": TransformReason.OTHER_DECODED,
        "decoded_small": TransformReason.OTHER_DECODED,
        "decoded_with_loss": TransformReason.ADDED("JPEG", changed=44, pictures=44),
        "draw_repeated": TransformReason.STATE_USED_BEFORE,
        "epochs_from_memory": PictureReason.FROZEN,
        "epochs_prepared": PictureReason.MADE_BEFORE_RACE("AutoAugment"),
        "epochs_prepared_in_each_run": PictureReason.MADE_BEFORE_RUN("AutoAugment"),
        "every_second_batch_skipped": WorkReason.BATCHES_SKIPPED(candidate=7, original=11),
        "every_third_batch_skipped": WorkReason.BATCHES_SKIPPED(candidate=7, original=11),
        "gradients_pile_up": StepReason.OTHER_GRADIENTS,
        "greyed_afterwards": TransformReason.ADDED("Grayscale", changed=44, pictures=44),
        "head_only_now_and_then": WorkReason.PARAMETERS_STILL(tensors=60, of=62),
        "images_shrunk": WorkReason.OTHER_SHAPE(candidate="3 x 32 x 32", original="3 x 64 x 64"),
        "images_shrunk_and_enlarged": TransformReason.OTHER_DECODED,
        "kernels_replaced": TransformReason.OTHER_RESULT("AutoAugment"),
        "last_batch_dropped": WorkReason.LAST_BATCH_DROPPED(candidate=8, original=11),
        "layers_frozen": StepReason.OTHER_GRADIENTS,
        "lower_precision": WorkReason.AUTOCAST,
        "not_normalised": PictureReason.OTHER_SCALE,
        "not_shuffled": OrderReason.REPEATED,
        "optimizer_another": OptimizerReason.OTHER_OPTIMIZER("SGD", "AdamW"),
        "optimizer_every_other_batch": WorkReason.OTHER_STEPS,
        "optimizer_pretends": WorkReason.PARAMETERS_STILL(tensors=62, of=62),
        "parameters_in_two_groups": OptimizerReason.OTHER_SETTING_OF_GROUP("weight_decay", candidate="0", tensors=61),
        "perf_counter_patched": WorkReason.CLOCK_REPLACED("time.perf_counter"),
        "policies_left_out": TransformReason.OTHER_RESULT("AutoAugment"),
        "policies_chosen": DrawReason.CHOSEN("AutoAugment"),
        "resize_left_out": TransformReason.OTHER_DECODED_SIZE("AutoAugment", original="73 x 73"),
        "setting_changed_later": TransformReason.OTHER_SETTING(
            "RandomResizedCrop", "scale", candidate="(0.95, 1.0)", original="(0.08, 1.0)"
        ),
        "seeds_chosen": DrawReason.CHOSEN("AutoAugment"),
        "sleep_at_start": PictureReason.NO_WAIT,
        "sleep_elsewhere": PictureReason.NO_WAIT,
        "sleep_in_constructor": PictureReason.NO_WAIT,
        "sleep_only_at_first": PictureReason.NO_WAIT,
        "sleep_patched": WorkReason.CLOCK_REPLACED("time.sleep"),
        "sleep_removed": PictureReason.NO_WAIT(quick=44, reads=44),
        "smaller_model": WorkReason.OTHER_MODEL(candidate=4_924_773, original=11_195_493),
        "some_pictures_left_black": PictureReason.BLANK,
        "statistics_reset": WorkReason.BUFFERS_TOUCHED,
        "targets_exchanged": PictureReason.OTHER_TARGET,
        "transform_dropped": TransformReason.NOT_ON_ALL("AutoAugment", seen=0),
        "transform_shared": TransformReason.DRAW_NOT_OWN,
        "transform_weakened": TransformReason.OTHER_SETTING(
            "RandomResizedCrop", "scale", candidate="(0.99, 1.0)", original="(0.08, 1.0)"
        ),
        "weights_changed_after_the_step": WorkReason.PARAMETERS_TOUCHED,
    },
    "part10": {
        "buffers_of_one_rank": StepReason.OTHER_BUFFERS,
        "buffers_reset": StepReason.OTHER_BUFFERS,
        "batches_not_shared": WorkReason.OTHER_BATCH_SIZE(candidate=8, original=4),
        "every_rank_sees_all": WorkReason.OTHER_NUMBER_OF_ITEMS(candidate=22, original=11),
        "gradients_not_averaged": WorkReason.RANKS_APART,
        "item_dealt_twice": WorkReason.OTHER_NUMBER_OF_ITEMS(candidate=12, original=11),
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
"""Of each cheat, by the part that judges it. Those of part 9 are in parts/test_part9.py."""

OF_UNSEEN_WORK: dict[str, ReasonKind | Reason] = {
    "asyncio_sleep": PictureReason.WAIT_UNSEEN,
    "fully_sharded": WorkReason.FLAT_PARAMETERS,
    "own_crop": TransformReason.NOT_SEEN_ON_ALL("RandomResizedCrop", seen=0),
    "own_loss": WorkReason.TARGETS_UNSEEN,
}
"""Of work that may be the same, and cannot be seen."""

BESIDE, AGAIN_IN_EPOCH = InputReason.BESIDE_THE_FIRST, InputReason.AGAIN_IN_EPOCH

OF_INPUTS: dict[str, tuple[ReasonKind, ...]] = {
    "crops_at_few_places": (SampleReason.AGAIN,),
    "crops_noise_of_worker": (SampleReason.STEPS_AGAIN,),
    "long_few_rows": (AGAIN_IN_EPOCH,),
    "long_half_noise": (InputReason.OF_NO_ITEM,),
    "long_kinds_of_others": (InputReason.OF_ANOTHER_ITEM,),
    "long_values_exchanged": (InputReason.OF_NO_ITEM,),
    "meters_noise_in_pairs": (SampleReason.AGAIN,),
    "meters_noise_of_worker": (NoiseReason.DRAWN_OTHERWISE,),
    "meters_noise_uniform": (NoiseReason.DRAWN_OTHERWISE,),
    "meters_one_noise_a_batch": (NoiseReason.DRAWN_FOR_BATCH,),
    "noise_few_shapes": (SampleReason.AGAIN,),
    "noise_kept": (SampleReason.OTHER_TARGETS,),
    "noise_little": (SampleReason.LESS_VARIED,),
    "noise_of_others": (SampleReason.UNRELATED,),
    "pairs_of_any": (BESIDE, SampleReason.OTHER_INPUTS),
    "pairs_with_rare_ones": (BESIDE, SampleReason.UNLIKE),
    "points_turned_by_quarters": (SampleReason.OTHER_VALUES,),
    "points_turned_together": (InputReason.BATCH_ALIKE_IN_VALUES,),
    "waves_of_one_kind_together": (InputReason.BATCH_ALIKE_IN_TARGET,),
    "rivals_of_few": (BESIDE, AGAIN_IN_EPOCH),
    "rivals_without_noise": (BESIDE, SampleReason.LESS_VARIED),
    "sentences_cut": (WorkReason.SMALLER_INPUTS,),
    "sentences_kinds_shuffled": (InputReason.OF_ANOTHER_ITEM,),
    "sentences_words_left_out": (InputReason.OF_NO_ITEM,),
    "signals_less_noise": (SampleReason.LESS_VARIED,),
    "signals_noise_from_a_pool": (NoiseReason.DRAWN_OTHERWISE,),
    "signals_noise_uniform": (NoiseReason.DRAWN_OTHERWISE,),
    "signals_of_others": (SampleReason.OTHER_INPUTS_OF_TARGET,),
    "signals_some_silent": (SampleReason.OTHER_INPUTS_OF_TARGET,),
    "signals_stale_with_noise": (SampleReason.OTHER_INPUTS_OF_TARGET,),
    "stream_few_kinds": (SampleReason.OTHER_TARGETS,),
    "stream_kinds_of_others": (SampleReason.UNLIKE,),
    "stream_on_a_line": (SampleReason.UNLIKE,),
    "stream_repeated": (AGAIN_IN_EPOCH,),
    "table_mostly_noise": (InputReason.OF_NO_ITEM,),
    "table_rounded": (InputReason.OF_NO_ITEM,),
    "table_rows_exchanged": (InputReason.OF_ANOTHER_ITEM,),
    "table_targets_shuffled": (InputReason.OF_ANOTHER_ITEM,),
    "waves_mostly_noise": (SampleReason.UNLIKE,),
    "waves_one_of_each_kind": (SampleReason.UNRELATED,),
    "waves_stale": (InputReason.AGAIN_IN_EPOCHS,),
    "waves_stale_with_noise": (SampleReason.AGAIN,),
    "waves_values_exchanged": (SampleReason.UNLIKE,),
    "waves_without_shift": (SampleReason.AGAIN,),
    "words_few_words": (SampleReason.UNLIKE,),
    "words_little_of_the_text": (AGAIN_IN_EPOCH,),
    "words_same_windows": (InputReason.AGAIN_IN_EPOCHS,),
    "words_scrambled": (SampleReason.UNLIKE,),
    "words_short_later": (WorkReason.OTHER_SHAPE, WorkReason.IN_SOME_PASSES),
    "words_targets_of_others": (SampleReason.UNRELATED,),
}
"""Of the inputs of each cheat that `compare` judges: the kind of the one reason, and of those in it."""

NOTHING_CHANGED = "nothing has been changed yet"
ANOTHER_LINE = "another line takes more"
"""Of what the walks through the parts read in the terminal."""

OF_OTHER_PROGRAMS = ("Busy machine: ", "other programs were at work", "Steps have become shorter")
"""Of what other programs do meanwhile, such as another test."""
