"""Times exports whose output layers have fewer and fewer pieces.

    python benchmarks/target_pieces.py --model_dir=WIDE --text=test.en \
        --sizes=24000,16000,8000

WIDE is a model directory, such as `widened.py` writes. It is exported with its
whole output layer and, for each size, with the pieces of the lowest ids; all
are loaded as TensorFlow Serving loads them and take turns, sentence by
sentence. `ratio` is the median over sentences and rounds of the time with the
whole layer to that with the other, and the quarters' bounds beside it. With
--target_pieces one export more has the pieces of these files, as
`export.saved_model` makes it; with --shortlist one more for each of
--shortlist_sizes. `same` is how many texts are those of the whole.
"""

import concurrent.futures
import multiprocessing
import os
import pathlib
import statistics
import sys
import tempfile
import time

from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from export import command
from export.lines.files import read_sentences
from export.progress_bar import ProgressBar
from export.server_runtime.session import ServerSession

FLAGS = flags.FLAGS

flags.DEFINE_string("model_dir", None, "The model.", required=True)
flags.DEFINE_string("text", None, "UTF-8 text, a line each.", required=True)
flags.DEFINE_list("sizes", [], "Pieces of output layers.")
flags.DEFINE_multi_string("target_pieces", [], "As of export.saved_model.")
flags.DEFINE_string("shortlist", None, "As of export.saved_model.")
flags.DEFINE_list("shortlist_sizes", ["1024"], "Pieces of a sentence's list.")
flags.DEFINE_integer("sentences", 16, "How many of the text.", lower_bound=1)
flags.DEFINE_integer("batch_size", 1, "Sentences in a request.", lower_bound=1)
flags.DEFINE_integer("rounds", 7, "How often each is asked.", lower_bound=1)
flags.DEFINE_integer("differences", 20, "How many are printed.", lower_bound=0)

_ROW = "{:>8}{:>9}{:>8}{:>16}{:>12}{:>12}"


def main(_):
    """Runs the command."""
    lines = [each for each in read_sentences(FLAGS.text) if each.strip()]
    lines = lines[: FLAGS.sentences]
    with tempfile.TemporaryDirectory() as folder:
        # It imports TensorFlow, which no process of a ServerSession has.
        with concurrent.futures.ProcessPoolExecutor(
            1, multiprocessing.get_context("spawn")
        ) as pool:
            sizes = pool.submit(
                _export,
                *(FLAGS.model_dir, folder, [*map(int, FLAGS.sizes)]),
                *(FLAGS.target_pieces, FLAGS.shortlist),
                [*map(int, FLAGS.shortlist_sizes)],
            ).result()
        sessions = [ServerSession(path) for path, _ in sizes]
        batches = [
            lines[start : start + FLAGS.batch_size]
            for start in range(0, len(lines), FLAGS.batch_size)
        ]
        times, texts = _measured(sessions, batches)
    _print([size for _, size in sizes], times, texts, lines)


def _export(model_dir, folder, sizes, files, shortlist, list_sizes):
    """Returns a list of pairs: an export's path and its pieces."""
    import tensorflow as tf

    from export.model_directory import ModelDirectory
    from export.serving.served_translator import ServedTranslator
    from export.translators.shortlist import read_shortlist
    from export.translators.target_pieces import ids_of_text

    directory = ModelDirectory(model_dir)
    tokenizer = directory.load_tokenizer()
    asked = [{}, *({"target_pieces": range(size)} for size in sizes)]
    if files:
        asked.append({"target_pieces": ids_of_text(tokenizer, files)})
    if shortlist:
        config = directory.read_config()
        asked += [
            {"shortlist": read_shortlist(shortlist, tokenizer, config, size)}
            for size in list_sizes
        ]
    made = []
    for number, search in enumerate(asked):
        servable = ServedTranslator(directory.load_model(), tokenizer, **search)
        path = pathlib.Path(folder, str(number))
        signatures = {"serving_default": servable.translate}
        tf.saved_model.save(servable, str(path), signatures=signatures)
        limits = servable.limits()
        kept = limits["target_pieces"] or limits["shortlist"]
        made.append((path, kept or tokenizer.vocabulary_size))
    return made


def _measured(sessions, batches):
    """Returns each session's seconds of all requests, and its texts."""
    times = [[] for _ in sessions]
    texts = [[] for _ in sessions]
    numbers = [*range(len(sessions))]
    requests = [
        {"text": [line.encode() for line in batch]} for batch in batches
    ]
    with ProgressBar("Asking", (FLAGS.rounds + 1) * len(batches), "s") as bar:
        for number, request in enumerate(requests * (FLAGS.rounds + 1)):
            # None always follows the same.
            numbers = numbers[1:] + numbers[:1]
            for each in numbers if number % 2 else reversed(numbers):
                started = time.perf_counter()
                found = sessions[each].run("serving_default", request)
                seconds = time.perf_counter() - started
                # The first round is a warm-up.
                if number < len(requests):
                    texts[each] += found["translation"].tolist()
                else:
                    times[each].append(seconds)
            bar.update(1)
    return times, texts


def _print(sizes, times, texts, lines):
    heads = "pieces", "of whole", "ratio", "quarters", "median ms", "same"
    print(_ROW.format(*heads))
    for number, size in enumerate(sizes):
        ratios = [one / other for one, other in zip(times[0], times[number])]
        low, middle, high = statistics.quantiles(ratios, n=4)
        same = sum(map(bytes.__eq__, texts[0], texts[number]))
        print(
            _ROW.format(
                f"{size:,}",
                f"{size / sizes[0]:.2f}",
                f"{middle:.2f}",
                f"{low:.2f} to {high:.2f}",
                f"{1000 * statistics.median(times[number]):.1f}",
                f"{same}/{len(lines)}",
            ),
            flush=True,
        )
    for number, (whole, other) in enumerate(zip(texts[0], texts[-1])):
        if whole != other and FLAGS.differences:
            FLAGS.differences -= 1
            print(lines[number], whole.decode(), other.decode(), "", sep="\n")


if __name__ == "__main__":
    command.run(main)
