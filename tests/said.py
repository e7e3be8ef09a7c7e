"""Pieces of the sentences that tests look for, as long as what is said has no kind: a sentence is changed here, too.

Of each sentence, one test of the module that makes it reads the whole.
"""

COMPUTED_LOWER = "something is computed in lower precision"
DECODED_OTHERWISE = "are not what the original makes of the photos"
ANOTHER_STATE = "something else has changed the optimizer's state"
ORDER_AGAIN = "the items come in the order of an earlier epoch"
SHOW_NOTHING = "pictures that enter the model show nothing"
DRAWS_AGAIN = "start from a random state that was used before"
AUGMENTATION_FROZEN = "the augmentation is frozen"
OTHER_BUFFERS = "other values in the model's buffers"
OTHER_NUMBER_OF_ITEMS = "an epoch trains on"
ANOTHER_GRADIENT = "something else than the gradient that the original gets"
NORMALISED_OTHERWISE = "is the normalisation another one?"
ANOTHER_CROP = "RandomResizedCrop does not do what torchvision's RandomResizedCrop does"
ANOTHER_POLICY = "AutoAugment does not do what torchvision's AutoAugment does"
POLICIES_CHOSEN = "the draws of AutoAugment are chosen"
DID_NOT_WAIT = "did not wait for the slow storage"
OTHER_NUMBER_OF_STEPS = "the optimizer steps"
OTHER_BATCHES = "batches have 8 items, the original's 4"

OF_CHEATS = {
    "part3": {
        "activations_rounded": COMPUTED_LOWER,
        "crop_in_the_corner": ANOTHER_CROP,
        "crops_chosen": "the draws of RandomResizedCrop are chosen",
        "crop_of_its_own": ANOTHER_CROP,
        "decoded_small_now_and_then": DECODED_OTHERWISE,
        "gradients_rounded": COMPUTED_LOWER,
        "momentum_forgotten": ANOTHER_STATE,
        "normalised_otherwise": NORMALISED_OTHERWISE,
        "optimizer_state_rounded": ANOTHER_STATE,
        "orders_take_turns": ORDER_AGAIN,
        "pictures_left_black": SHOW_NOTHING,
        "workers_draw_alike": DRAWS_AGAIN,
        "augmentation_frozen": AUGMENTATION_FROZEN,
        "backward_left_out": "backward runs",
        "batch_size_changed": OTHER_BATCHES,
        "batch_norm_forgets": OTHER_BUFFERS,
        "batches_always_the_same": "shuffle items, not batches",
        "batches_reused": OTHER_NUMBER_OF_ITEMS,
        "crop_on_top": "serves for several epochs: what was augmented is kept",
        "decoded_by_nearest": DECODED_OTHERWISE,
        "decoded_in_grey": DECODED_OTHERWISE,
        "decoded_small": DECODED_OTHERWISE,
        "decoded_with_loss": "JPEG changes all pictures, in the original none",
        "draw_repeated": DRAWS_AGAIN,
        "epochs_from_memory": AUGMENTATION_FROZEN,
        "epochs_prepared": "had gone through AutoAugment before it began",
        "epochs_prepared_in_each_run": "had gone through AutoAugment before its first step",
        "every_second_batch_skipped": "batches are skipped",
        "every_third_batch_skipped": OTHER_NUMBER_OF_ITEMS,
        "gradients_pile_up": ANOTHER_GRADIENT,
        "greyed_afterwards": "Grayscale changes ",
        "head_only_now_and_then": "optimizer steps moved nothing in 60 of the model's 62 tensors",
        "images_shrunk": "the model's input is 3 x 32 x 32, the original's 3 x 64 x 64",
        "images_shrunk_and_enlarged": DECODED_OTHERWISE,
        "kernels_replaced": ANOTHER_POLICY,
        "last_batch_dropped": "an epoch trains on 8 of 11 items: the last batch is dropped",
        "layers_frozen": ANOTHER_GRADIENT,
        "lower_precision": "lower precision",
        "not_normalised": NORMALISED_OTHERWISE,
        "not_shuffled": ORDER_AGAIN,
        "optimizer_another": "the optimizer is SGD, the original's AdamW",
        "optimizer_every_other_batch": OTHER_NUMBER_OF_STEPS,
        "optimizer_pretends": "optimizer steps moved nothing in 62 of the model's 62 tensors",
        "parameters_in_two_groups": "the optimizer's weight_decay is 0 for 61 of its tensors",
        "perf_counter_patched": "the script replaces time.perf_counter",
        "policies_left_out": ANOTHER_POLICY,
        "policies_chosen": POLICIES_CHOSEN,
        "resize_left_out": "pixels, the original's 73 x 73",
        "setting_changed_later": "RandomResizedCrop has scale=(0.95, 1.0), in the original (0.08, 1.0)",
        "seeds_chosen": POLICIES_CHOSEN,
        "sleep_at_start": DID_NOT_WAIT,
        "sleep_elsewhere": DID_NOT_WAIT,
        "sleep_in_constructor": DID_NOT_WAIT,
        "sleep_only_at_first": DID_NOT_WAIT,
        "sleep_patched": "the script replaces time.sleep",
        "sleep_removed": "all reads of a photo did not wait for the slow storage",
        "smaller_model": "the model is another one: 4,924,773 parameters, the original has 11,195,493",
        "some_pictures_left_black": SHOW_NOTHING,
        "statistics_reset": "something else has changed the model's buffers",
        "targets_exchanged": "with the target of another one",
        "transform_dropped": "AutoAugment was applied to 0 of",
        "transform_shared": "share one draw of a random transform",
        "transform_weakened": "RandomResizedCrop has scale=(0.99, 1.0), in the original (0.08, 1.0)",
        "weights_changed_after_the_step": "something else has changed the model's parameters",
    },
    "part10": {
        "buffers_of_one_rank": OTHER_BUFFERS,
        "buffers_reset": OTHER_BUFFERS,
        "batches_not_shared": OTHER_BATCHES,
        "every_rank_sees_all": "an epoch trains on 22 items, the original on 11",
        "gradients_not_averaged": "the ranks have different parameters",
        "item_dealt_twice": "an epoch trains on 12 items, the original on 11",
        "order_kept": ORDER_AGAIN,
        "rank_stops_early": "the ranks do not step together: in an epoch, rank 0 takes 3, rank 1 takes 2 steps",
    },
    "part12": {
        "activations_rounded": COMPUTED_LOWER,
        "fewer_sequences": "an epoch trains on 24 of 48 items",
        "layer_frozen": "optimizer steps moved nothing in 2 of the model's 6 tensors",
        "less_ahead": "of the 48 items of an epoch, 48 are missing",
        "lower_precision": "the model runs in lower precision (autocast)",
        "memory_cut": ANOTHER_GRADIENT,
        "pictures_cropped": "the model's input is 4 x 24 x 24, the original's 4 x 48 x 48",
        "smaller_batch": "batches have 8 items, the original's 16",
        "smaller_model": "the model is another one",
        "steps_left_out": OTHER_NUMBER_OF_STEPS,
    },
}
"""Of each cheat, by the part that judges it. Those of part 9 are in parts/test_part9.py."""

OF_UNSEEN_WORK = {
    "asyncio_sleep": "reads of a photo waited cannot be seen: wait for the slow storage with time.sleep",
    "fully_sharded": "FullyShardedDataParallel joins the parameters into one",
    "own_crop": "RandomResizedCrop was seen to be applied to 0 of",
    "own_loss": "the targets cannot be seen: take the loss from a loss function of torch.nn",
}
"""Of work that may be the same, and cannot be seen."""

NOT_OF_ANY = "inputs are not what the original makes of any item"
OF_ANOTHER = "inputs come with the target of another item"
AGAIN = "the same ones come again"
UNLIKE = "are less like the original's than 95% of its own: something else has made them"
LESS_VARIED = "are more like the original's than 95% of its own: they vary less"
OTHER_INPUTS = "the inputs are not distributed as the original's"
OTHER_TARGETS = "the targets are not distributed as the original's"
ONE_ANOTHER = "of what is most like an input of this script has entered it, too"
DRAWN_OTHERWISE = "it is distributed otherwise, or the same comes again for other items"
UNRELATED = "inputs do not come with targets such as the original's"

OTHER_VALUES = "the inputs are not made of such values as the original's"
BATCH_ALIKE = "the values of the items of a batch are alike"

OF_INPUTS = {
    "crops_at_few_places": ONE_ANOTHER,
    "crops_noise_of_worker": "in the steps between neighbouring values, ",
    "long_few_rows": AGAIN,
    "long_half_noise": NOT_OF_ANY,
    "long_kinds_of_others": OF_ANOTHER,
    "long_values_exchanged": NOT_OF_ANY,
    "meters_noise_in_pairs": ONE_ANOTHER,
    "meters_noise_of_worker": DRAWN_OTHERWISE,
    "meters_noise_uniform": DRAWN_OTHERWISE,
    "meters_one_noise_a_batch": "the items of a batch get the same random draws",
    "noise_few_shapes": ONE_ANOTHER,
    "noise_kept": OTHER_TARGETS,
    "noise_little": LESS_VARIED,
    "noise_of_others": UNRELATED,
    "pairs_of_any": f"in an input beside the model's first, {OTHER_INPUTS}",
    "pairs_with_rare_ones": "in an input beside the model's first, ",
    "points_turned_by_quarters": OTHER_VALUES,
    "points_turned_together": BATCH_ALIKE,
    "waves_of_one_kind_together": "the items of a batch are alike in target",
    "rivals_of_few": AGAIN,
    "rivals_without_noise": "in an input beside the model's first, ",
    "sentences_cut": "the model's inputs have 45 values on the average, the original's 55",
    "sentences_kinds_shuffled": OF_ANOTHER,
    "sentences_words_left_out": NOT_OF_ANY,
    "signals_less_noise": LESS_VARIED,
    "signals_noise_from_a_pool": DRAWN_OTHERWISE,
    "signals_noise_uniform": DRAWN_OTHERWISE,
    "signals_of_others": OTHER_INPUTS,
    "signals_some_silent": OTHER_INPUTS,
    "signals_stale_with_noise": OTHER_INPUTS,
    "stream_few_kinds": OTHER_TARGETS,
    "stream_kinds_of_others": UNLIKE,
    "stream_on_a_line": UNLIKE,
    "stream_repeated": AGAIN,
    "table_mostly_noise": NOT_OF_ANY,
    "table_rounded": NOT_OF_ANY,
    "table_rows_exchanged": OF_ANOTHER,
    "table_targets_shuffled": OF_ANOTHER,
    "waves_mostly_noise": UNLIKE,
    "waves_one_of_each_kind": UNRELATED,
    "waves_stale": AGAIN,
    "waves_stale_with_noise": ONE_ANOTHER,
    "waves_values_exchanged": UNLIKE,
    "waves_without_shift": ONE_ANOTHER,
    "words_few_words": UNLIKE,
    "words_little_of_the_text": AGAIN,
    "words_same_windows": AGAIN,
    "words_scrambled": UNLIKE,
    "words_short_later": "in 60 of 64 passes the model's input is 12, the original's 48",
    "words_targets_of_others": UNRELATED,
}
"""Of the inputs of each cheat that `compare` judges."""

OF_PARTS = {
    "part5, the script with nothing gained": r"nothing is kept: \d+ of \d+ photos were read slowly again in the second",
    "part6, the script with nothing gained": r"0 of \d+ batches were copied to the device before",
    "part10, the script with nothing gained": "init_process_group is missing",
    "part10, its solution": "2 ranks train one model: each item once an epoch",
}
"""Patterns of what a check says, by the part and what is tried."""

NOTHING_CHANGED = "nothing has been changed yet"
ANOTHER_LINE = "another line takes more"

OF_OTHER_PROGRAMS = ("Busy machine: ", "other programs were at work")
"""Of what other programs do meanwhile, such as another test."""
