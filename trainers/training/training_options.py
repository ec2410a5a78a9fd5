"""What a training does besides what the configuration says, and its flags."""

import dataclasses

from absl import flags

from export.common import command
from export.common.errors import InputError
from trainers import settings
from trainers.batches import BATCHINGS
from trainers.scores import bleu_tokenizers


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """How one command trains; see the flags of `trainers.wmt`.

    Attributes:
        precision: Keras dtype policy.
        jit: whether XLA compiles loss and gradient; None for where there are
            GPUs.
        seed: of weights, dropout and the data's order.
        max_tokens: pairs with a longer side are left out.
        batching: "length" or "pack".
        shapes: how many padded lengths batches may have; 0 chooses
            automatically.
        row_tokens: positions a row of packed pairs has.
        accumulate: micro-batches of an update.
        ema: momentum of an average of the weights; 0 for none.
        train_minutes: limit from the first update on; 0 is none.
        patience: measures of dev without a better one before training
            stops; 0 is no limit.
        report_steps: updates between reports.
        dev_steps: updates between measures of the dev split.
        dev_bleu_sentences: how many of its sentences are translated each
            time; 0 for none.
        dev_f1_sentences: how many of its sentences a parser parses each time;
            0 for none.
        tokenize: name of sacreBLEU's tokeniser for dev BLEU and the test
            split's; None for the target language's own.
        attention_steps: updates between pictures of attention; None for
            `dev_steps`, 0 for none.
        attention_sentences: how many dev sentences they show.
        checkpoint_steps: updates between checkpoints; 0 is none.
        checkpoint_minutes: minutes between checkpoints; 0 is none.
        keep_checkpoints: how many are kept.
        keep_best: whether the best of dev, or with `ema` the average at that
            step, becomes the final weights.
    """

    precision: str
    jit: bool | None
    seed: int
    max_tokens: int
    batching: str
    shapes: int
    row_tokens: int
    accumulate: int
    ema: float
    train_minutes: float
    patience: int
    report_steps: int
    dev_steps: int
    dev_bleu_sentences: int
    dev_f1_sentences: int
    tokenize: str | None
    attention_steps: int | None
    attention_sentences: int
    checkpoint_steps: int
    checkpoint_minutes: float
    keep_checkpoints: int
    keep_best: bool

    @property
    def saves_best(self):
        """Whether a checkpoint of the best of dev is kept."""
        scored = self.dev_bleu_sentences or self.dev_f1_sentences
        return self.keep_best or bool(scored)


FLAGS = flags.FLAGS
# Or --help would not show them.
flags.adopt_module_key_flags(bleu_tokenizers)

_OF_ONE_BATCHING = {"shapes": "length", "row_tokens": "pack"}

flags.DEFINE_float(
    "train_minutes",
    0.0,
    "Stop so many minutes after training began; 0 is no limit.",
    lower_bound=0.0,
)
flags.DEFINE_integer(
    "max_tokens", 256, "Pairs with a longer side are left out, in pieces."
)
flags.DEFINE_enum(
    "batching",
    "pack",
    BATCHINGS,
    "pack: rows of several pairs that do not see each other, all of one "
    "shape; length: rows of one pair, pairs of similar length together.",
)
flags.DEFINE_integer(
    "shapes",
    16,
    "With --batching=length, how many padded lengths batches may have: more "
    "make less padding, and each is compiled once; 0 chooses automatically.",
    lower_bound=0,
)
flags.DEFINE_integer(
    "row_tokens",
    128,
    "With --batching=pack, positions in a row of the longer side.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "accumulate",
    1,
    "Work off each update in so many parts, one after the other: less memory, "
    "the same update.",
    lower_bound=1,
    upper_bound=1024,
)
flags.DEFINE_enum(
    "precision",
    "float32",
    ["float32", "mixed_bfloat16"],
    "Of activations and products; weights, norms, softmax and loss are "
    "float32 in both.",
)
flags.DEFINE_bool(
    "jit",
    None,
    "Compile loss and gradient with XLA, once for each shape. Default: only on "
    "GPUs; on CPUs it measured slower (docs/measured/training_step.md).",
)
flags.DEFINE_float(
    "ema",
    0.0,
    "Momentum of an exponential moving average of the weights, such as "
    "0.9999, that takes the place of averaged checkpoints and is what dev "
    "measures; update n has n / (n + 9) while that is less; 0 for none.",
    lower_bound=0.0,
    upper_bound=0.999999,
)
flags.DEFINE_integer(
    "seed",
    1,
    "Of weights, dropout and the data's order.",
    lower_bound=0,
    upper_bound=2**32 - 1,
)
flags.DEFINE_integer(
    "report_steps", 100, "Updates between reports.", lower_bound=1
)
flags.DEFINE_integer(
    "dev_steps",
    1000,
    "Updates between measures of the dev split.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "dev_bleu_sentences",
    0,
    "Of trainers.wmt: translate so many dev sentences at each measure and "
    "report their BLEU; the best checkpoint by it is kept beside the last; 0 "
    "for the loss alone.",
    lower_bound=0,
)
flags.DEFINE_integer(
    "dev_f1_sentences",
    0,
    "Of trainers.parsing: parse so many dev sentences at each measure and "
    "report the F1 of their trees; the best checkpoint by it is kept beside "
    "the last; 0 for the loss alone.",
    lower_bound=0,
)
flags.DEFINE_integer(
    "attention_steps",
    None,
    "Updates between pictures of attention; default: --dev_steps; 0 for none.",
    lower_bound=0,
)
flags.DEFINE_integer(
    "attention_sentences", 2, "How many dev sentences they show.", lower_bound=1
)
flags.DEFINE_integer(
    "patience",
    0,
    "Stop after so many measures of the dev split without a lower loss, or "
    "with --dev_bleu_sentences a higher BLEU, with --dev_f1_sentences a higher "
    "F1; 0 for never.",
    lower_bound=0,
)
flags.DEFINE_integer(
    "checkpoint_steps",
    1000,
    "Updates between checkpoints; 0 for none.",
    lower_bound=0,
)
flags.DEFINE_float(
    "checkpoint_minutes",
    10.0,
    "Minutes between checkpoints; 0 for none.",
    lower_bound=0.0,
)
flags.DEFINE_integer(
    "keep_checkpoints", 5, "How many checkpoints are kept.", lower_bound=1
)
flags.DEFINE_bool(
    "keep_best",
    False,
    "Make the final weights of the best checkpoint by dev BLEU or F1 (without "
    "--dev_bleu_sentences and --dev_f1_sentences by dev loss), in the place of "
    "an average of checkpoints; with --ema of its average.",
)
command.require_finite("train_minutes", "ema", "checkpoint_minutes")


def validate_unused_flags(names, tasks):
    """Refuses flags that say nothing to a command.

    Args:
        names: list of names.
        tasks: what they are of, such as "translations".

    Raises:
        InputError: one was given.
    """
    for name in names:
        if FLAGS[name].present:
            raise InputError(f"--{name} is of {tasks}; leave it out.")


def validate_final_weights_flags():
    """Refuses flags that ask for two makers of the final weights.

    Raises:
        InputError: naming them.
    """
    fields = settings.parse_assignments(FLAGS.set)
    asked = {
        "--ema": FLAGS.ema,
        "--average_checkpoints": FLAGS.average_checkpoints,
        "--set=average_checkpoints": fields.get("average_checkpoints"),
        "--keep_best": FLAGS.keep_best,
    }
    makers = [f"{name}={value}" for name, value in asked.items() if value]
    # The best average by dev is one maker.
    if len(makers) > 1 + bool(FLAGS.ema and FLAGS.keep_best):
        raise InputError(
            f"{makers[0]} and {makers[1]} cannot both make the final weights; "
            "leave out one of them."
        )


def plan():
    """Returns the TrainingPlan that the flags ask for.

    Raises:
        InputError: a flag was given that the way of batching has no use for.
    """
    for name, batching in _OF_ONE_BATCHING.items():
        if FLAGS[name].present and FLAGS.batching != batching:
            raise InputError(
                f"--{name} says nothing about --batching={FLAGS.batching}; "
                f"leave it out, or add --batching={batching}."
            )
    fields = dataclasses.fields(TrainingOptions)
    return TrainingOptions(
        **{each.name: FLAGS[each.name].value for each in fields}
    )
