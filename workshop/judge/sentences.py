"""What the judge says of a script's work and speed, with values in braces; parts' checks have some of their own."""

# Of the race. A ratio is the time of the original divided by that of the script.
SPEEDUP = "Speedup {ratio:.2f}x over {original}{where}, {work}"
WHERE_PREPARED = " until the model is called"
SAME_WORK = "same work"
NOTHING_ELSE = "and nothing that could be compared differs"
ASKED = "{says}; asked: {target:g}x"
SOLUTION = "the solution reaches {ratio:.1f}x here"
NOISY = "too noisy: the speedups of the pairs of epochs were {low:.2f}x to {high:.2f}x; asked: {target:g}x"
WEAK_MACHINE = "this machine cannot show it now: {solution}; asked: {target:g}x"
MAY_BE_REACHED = "too noisy: the speedup may be {target:g}x or more"
NOT_REPEATED = "speedup {first:.2f}x in one run of both, and {second:.2f}x in another"
MAY_BE_NO_GAIN = "the pairs of epochs had speedups of {low:.2f}x to {high:.2f}x, so there may be no gain"
NO_LEAD = "after {pairs} pairs of epochs neither side leads by three{end}: too noisy, or too close"
TIME_IS_OVER = " when the time ran out"
NOT_COMPARED = "not compared: the {what}, because recomputing the original's own gives other results"

# What to do next, where the script is faster or may become so.
WAITS = "the loop still waits for data for {share:.0%} of an epoch"
WAITS_FOR_WORKERS = f"{WAITS}, which begins with starting the workers anew (persistent_workers=True keeps them)"
GOES_ELSEWHERE = (
    "{share:.0%} of an epoch goes into neither loading nor model nor optimizer: profile main() line by line"
)
COMPUTES = "what is left is mostly computation: the largest phase is {phase}, {share:.0%} of an epoch"

# Progress.
STARTING = "starting {candidate} and {original}"
WATCHING = "watching what {candidate} does, for two epochs"
STARTING_AGAIN = "starting both again, to see whether it holds"
RESTARTING = "starting your script again, on the cache that it left"
RUNNING_ORIGINAL_AGAIN = "running {original} again, to see whether it does the same"
RACING = "racing, epoch by epoch; asked: speedup {target:g}x{where}"
PAIR = "pair {pairs} of at most {most}: speedup {ratio:.2f}x so far; at least {left_s:.0f} s left"
MEASURING_SOLUTION = "measuring the solution on this machine{once}"
MEASURING_PAIR = "measuring the solution on this machine: pair {pair} of 3"

# Of a script that does not come to the end of an epoch, or whose work cannot be seen.
NO_STEP = "{original} has no step that could be compared: {seen}"
UNSEEN = "the judge cannot see what {script} does: {error}"
DOES_NOT_TRAIN = "the script does not train: {error}"
CRASHED = "{script} crashed: {error}"
STOPPED = "{script} was stopped: {error}"
UNSEEN_WORK = "the judge cannot see whether it is the same work: {complaint}"
ORIGINAL_TOO = "{complaint}; but so did {original} when run again"
NO_TRAINING = "no training was seen: no model with parameters was called and stepped by an optimizer"
NO_LOSS = "no loss function of torch.nn was seen"
FILE_LEFT = "it leaves files behind: {file}{more}; keep files under the config's cache_dir"

# Of epochs, batches, items and their order.
CLOCKS = "the script replaces {names}: leave the clocks alone; the judge uses its own"
FEWER_STEPS = "an epoch has {fewest} steps, the original's {steps}"
STEPS_PER_BATCH = (
    "the optimizer steps {steps} times for {batches} batches, in the original {usual} times for {usual_batches}"
)
BACKWARDS = "backward runs {backwards} times for {batches} batches, in the original {usual} times for {usual_batches}"
INPUT = "the model's input is {now}, the original's {usual}"
INPUT_SIZES = "the model's inputs have {now:.0f} values on the average, the original's {usual:.0f}"
BATCH_SIZE = "batches have {now} items, the original's {usual}"
AUTOCAST = "the model runs in lower precision (autocast), the original in full"
UNSEEN_TARGETS = "the targets cannot be seen: take the loss from a loss function of torch.nn"
LAST_DROPPED = "an epoch trains on {total} of {items} items: the last batch is dropped"
SKIPPED = "an epoch trains on {total} of {items} items: batches are skipped"
OTHER_TOTAL = "an epoch trains on {total} items, the original on {items}"
OTHER_ITEMS = (
    "of the {items} items of an epoch, {missing} are missing, and {surplus} are repeated or have a wrong target: each "
    "must come once, with its own target"
)
SAME_ORDER = "the items come in the order of an earlier epoch: use shuffle=True, or call the sampler's set_epoch()"
SAME_BATCHES = "{share:.0%} of the items that share a batch shared one in an earlier epoch: shuffle items, not batches"
SAME_SEQUENCE = "{share:.0%} of the items that follow each other did so in an earlier epoch: shuffle all of them anew"
SIMILAR_ORDER = (
    "the items come in much the same order in each epoch: the correlation of their positions is {correlation:.2f}, and "
    "by chance it is 0: shuffle all of them, not a part at a time"
)

# Of the pictures that enter the model.
UNSEEN_WAITS = (
    "how long {quick} of {used} reads of a photo waited cannot be seen: wait for the slow storage with time.sleep, in "
    "the thread that reads"
)
QUICK_READS = (
    "{quick} of {used} reads of a photo did not wait for the slow storage: each must sleep {seconds:g} s, in the "
    "thread that reads"
)
UNREAD = (
    "only {read} of {items} photos were ever read from the slow storage: the others come from data made before this "
    "run, or kept outside the config's cache_dir"
)
DECODED_SIZE = "the pictures that enter {transform} are {now} pixels, the original's {usual}"
DECODED = (
    "{wrong} of {pictures} pictures that enter {transform} are not what the original makes of the photos: their median "
    "distance is {distance:.2f}, with honest decoders below 0.01"
)
LEFT_OUT = "{transform} was applied to {seen} of {pictures} pictures, in the original to all"
UNSEEN_TRANSFORM = (
    "{transform} was seen to be applied to {seen} of {pictures} pictures, and what makes the others cannot be seen: "
    "use the transforms of torchvision, and call them as objects"
)
UNSEEN_CHANGE = (
    "something that cannot be seen has changed {unseen} of {pictures} pictures on their way: use the transforms of "
    "torchvision, and call them as objects"
)
TRANSFORM_SETTING = "{transform} has {name}={now}, in the original {usual}"
ADDED = "{transform} changes {changed} of {pictures} pictures, in the original none"
REPLACED = f"{ADDED}; whether it replaces another transform cannot be seen"
SHARED_DRAW = "{pictures} pictures share one draw of a random transform; the original draws for each"
OTHER_TRANSFORM = (
    "{transform} does not do what torchvision's {transform} does: applied again with the same draw, {differing} of "
    "{pictures} pictures differ"
)
NOT_APPLIED = "{failed} of {pictures} random transforms could not be applied again: {error}"
BLANK = "{now} of {pictures} pictures that enter the model show nothing, in the original {usual} of {usual_pictures}"
USED_STATES = (
    "{repeated} of {draws} random transforms start from a random state that was used before: each picture needs a draw "
    "of its own, in each worker"
)
SCALE = (
    "channel {channel} enters the model as {slope:.2f} * value {offset:+.2f}, in the original as {usual_slope:.2f} * "
    "value {usual_offset:+.2f}: is the normalisation another one?"
)
SPREAD = (
    "the values that enter the model have mean {mean:.2f} and deviation {deviation:.2f}, in the original "
    "{usual_mean:.2f} and {usual_deviation:.2f}: is the normalisation missing?"
)
TARGETS = "{count} pictures came with the target of another one, such as {photo}"
FROZEN = (
    "{share:.0%} of the pictures look exactly as in an earlier epoch: the augmentation is frozen; keep what is "
    "deterministic, and augment what comes out"
)
KEPT_DRAW = (
    "one draw of {transform} serves for several epochs: what was augmented is kept; keep what is deterministic, and "
    "augment what comes out"
)
STOCK = (
    "{count} of the pictures in the race had gone through {transform} before it began: work that is done in advance is "
    "left out of the race"
)

# Of the model, the optimizer and its steps.
OTHER_MODEL = "the model is another one: {now:,} parameters, the original has {usual:,}"
OTHER_FIRST = "the model that is called first is not the one that the original calls first"
OPTIMIZER = "the optimizer is {now}, the original's {usual}"
IN_STEP = "in step {number}, {complaint}"
SETTING = "the optimizer's {name} is {now}{where}, the original's {usual}"
GROUP_SETTING = "the original's optimizer has other settings{where}: {name} {usual}"
OF_TENSORS = " for {tensors} of its tensors"
OTHERS_NAME = "another model's {optimizer} ({parameters:,} parameters)"
NEVER_STEPS = "{name} never steps"
OTHERS_STEPS = "{name} steps {now:.2f} times for each step of the first model, in the original {usual:.2f} times"
OTHERS_MOVES = "{name} moves only {moved} of its {tensors} tensors"
OTHERS_SETTING = "the {setting} of {name} is {now}, the original's {usual}"
IDLE = "{share:.0%} of the optimizer steps moved nothing in {idle} of the model's {tensors} tensors"
TOUCHED = (
    "between optimizer steps something else has changed {what}: {tensors} of its tensors, after {share:.0%} of the "
    "steps"
)
NOT_RECOMPUTED = "a sampled step could not be computed over again: {error}"
LOSS = "the loss of a sampled step is {recorded:.4f}; computed over again from the same batch, {loss:.4f}"
GRADIENT = (
    "a sampled step moved the parameters by something else than the gradient of its batch: {error:.0%} of the gradient "
    "is not accounted for"
)
STEP = (
    "in a sampled step, the optimizer turned the gradients into another update than the original's would: {error:.0%} "
    "of the change of a tensor is not accounted for"
)
STATE = (
    "after a sampled step the optimizer's state is not what the original's would be: a tensor is off by {error:.1g} of "
    "its length"
)
BUFFERS = "a sampled step left other values in the model's buffers, such as the running means of batch norm"
PRECISION = (
    "the gradients of {where} are off by {times:.0f} times the rounding noise, where another order of operations "
    "makes 3: something is computed in lower precision"
)

# Of several ranks.
RANKS_STEPS = "the ranks do not step together: in an epoch, {counts} steps"
RANKS_APART = (
    "after step {number} the ranks have different parameters: they do not share their gradients; "
    "DistributedDataParallel does it"
)
RANKS_APART_AT_SAMPLE = "at a sampled step, the ranks have different parameters: they do not train one model"
