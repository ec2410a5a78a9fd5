"""Training options that are not part of the TransformerConfig."""

import dataclasses
import typing
from collections.abc import Iterable

from absl import flags

from export.common import command
from export.common.errors import InputError
from trainers.batches import BATCHINGS
from trainers.scores import bleu_tokenizers
from trainers.training import config_flags

FLAGS = flags.FLAGS
# Shows the flags of these modules in --help.
flags.adopt_module_key_flags(bleu_tokenizers)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Values of the flags of the same names; see their help."""

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
    sample_minutes: float
    checkpoint_steps: int
    checkpoint_minutes: float
    keep_checkpoints: int
    keep_best: bool

    @classmethod
    def from_flags(cls) -> typing.Self:
        """Returns the TrainingOptions; InputError if flags conflict."""
        _validate_final_weights()
        for name, batching in (("shapes", "length"), ("row_tokens", "pack")):
            if FLAGS[name].present and FLAGS.batching != batching:
                raise InputError(
                    f"--{name} has no effect with --batching={FLAGS.batching}; "
                    f"drop it, or add --batching={batching}."
                )
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: FLAGS[name].value for name in names})


flags.DEFINE_float(
    "train_minutes",
    0.0,
    "Minutes of training from the first update, 0 for no limit: their number, "
    "at most --train_steps if that is given, and the cooldown of the learning "
    "rate follow from their speed.",
    lower_bound=0.0,
)
flags.DEFINE_integer(
    "max_tokens", 256, "Pairs with more tokens on a side are skipped."
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
    "With --batching=length, number of padded batch shapes, each of which is "
    "compiled once; 0 chooses automatically.",
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
    "Micro-batches of an update, computed one after the other: less memory, "
    "the same update.",
    lower_bound=1,
    upper_bound=1024,
)
flags.DEFINE_enum(
    "precision",
    "float32",
    ["float32", "mixed_bfloat16"],
    "Keras dtype policy, of activations and products; weights, norms, softmax "
    "and loss are float32 in both.",
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
    "Momentum of an exponential moving average of the weights, such as 0.9999, "
    "which is evaluated on dev and becomes the final weights; update n has "
    "n / (n + 9) while that is less; 0 for none.",
    lower_bound=0.0,
    upper_bound=0.999999,
)
flags.DEFINE_integer(
    "seed",
    1,
    "Seed of weights, dropout and the order of the data.",
    lower_bound=0,
    upper_bound=2**32 - 1,
)
flags.DEFINE_integer(
    "report_steps", 100, "Updates between reports.", lower_bound=1
)
flags.DEFINE_integer(
    "dev_steps", 1000, "Updates between evaluations on dev.", lower_bound=1
)
flags.DEFINE_integer(
    "dev_bleu_sentences",
    0,
    "Of trainers.wmt: number of dev sentences to translate at each evaluation; "
    "the best checkpoint by BLEU is kept as well; 0 for the loss only.",
    lower_bound=0,
)
flags.DEFINE_integer(
    "dev_f1_sentences",
    0,
    "Of trainers.parsing: number of dev sentences to parse at each evaluation; "
    "the best checkpoint by F1 is kept as well; 0 for the loss only.",
    lower_bound=0,
)
flags.DEFINE_integer(
    "attention_steps",
    None,
    "Updates between attention pictures; default: --dev_steps; 0 for none.",
    lower_bound=0,
)
flags.DEFINE_integer(
    "attention_sentences", 2, "Number of dev sentences in them.", lower_bound=1
)
flags.DEFINE_float(
    "sample_minutes",
    0.0,
    "Of trainers.wmt: minutes between translations of three dev sentences, "
    "which are printed; 0 for none.",
    lower_bound=0.0,
)
flags.DEFINE_integer(
    "patience",
    0,
    "Evaluations on dev without a lower loss (with --dev_bleu_sentences a "
    "higher BLEU, with --dev_f1_sentences a higher F1) after which to stop; "
    "equal scores at the start do not count. 0 for no limit.",
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
    "keep_checkpoints", 5, "Number of latest checkpoints kept.", lower_bound=1
)
flags.DEFINE_bool(
    "keep_best",
    False,
    "Take the final weights from the best checkpoint by dev BLEU or F1 "
    "(without --dev_bleu_sentences and --dev_f1_sentences by dev loss) instead "
    "of averaging checkpoints; with --ema, its moving average.",
)
command.mark_flags_as_finite(
    "train_minutes", "ema", "sample_minutes", "checkpoint_minutes"
)


def validate_unused_flags(names: Iterable[str], tasks: str) -> None:
    """Raises InputError if one of these flags, for `tasks`, is given."""
    for name in names:
        if FLAGS[name].present:
            raise InputError(f"--{name} is for {tasks}; drop it.")


def _validate_final_weights():
    fields = config_flags.parse_assignments(FLAGS.set)
    values = {
        "--ema": FLAGS.ema,
        "--average_checkpoints": FLAGS.average_checkpoints,
        "--set=average_checkpoints": fields.get("average_checkpoints"),
        "--keep_best": FLAGS.keep_best,
    }
    sources = [f"{name}={value}" for name, value in values.items() if value]
    # --keep_best with --ema uses the moving average of the best step.
    if len(sources) > 1 + bool(FLAGS.ema and FLAGS.keep_best):
        raise InputError(
            f"{sources[0]} and {sources[1]} cannot both make the final "
            "weights; drop one of them."
        )
