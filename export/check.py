"""Runs an export as TensorFlow Serving would: `python -m export.check E`.

E is an exported version, or a folder of versions, whose newest is checked, or a
folder of export.onnx, which onnxruntime runs. A version with operations that a
stock server lacks, or that access files, is refused. Otherwise it is loaded
without Keras, and every signature runs its warm-up requests. With --model_dir
the outputs for batches of 1, 7 and 64 are compared with those of the model
directory: texts must be equal, and scores within 0.0001; of an int8 export nine
of ten texts, and scores within 2 %; of an int8 file of ONNX, which rounds
otherwise, three of ten. The exit code is 2 if a check fails.
"""

import itertools
import pathlib
import statistics
import time

from absl import flags

from export.common import command
from export.common.errors import InputError
from export.common.progress_bar import ProgressBar
from export.common.storage import explain_read_errors
from export.onnx.onnx_session import OnnxSession, find_onnx
from export.serving.comparison import ONNX_TOLERANCES, TOLERANCES, Comparison
from export.serving.export_directory import (
    LIMITS,
    damaged_file_error,
    folder_size,
    language_pairs,
    newest_version,
    random_texts,
    read_description,
    read_export_languages,
    read_task,
    read_warm_up_requests,
    select_inputs,
)
from export.serving.session import (
    SERVER_ERRORS,
    ServerSession,
    read_meta_graph,
    unsupported_operations,
)
from export.tokenizers.python_tokenizers import load_python_tokenizers
from export.translators.output_vocabulary_files import (
    SHORTLIST_FILE,
    read_shortlist,
    read_target_pieces,
)

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "model_dir", None, "Model directory whose outputs must be the same."
)

_BATCH_SIZES = (1, 7, 64)
# Token counts of the random sentences, empty ones included.
_LENGTHS = (8, 3, 0, 12, 1, 5, 9, 2, 7)
# Requests after the first, whose median time is printed.
_NUM_REPEATS = 5
_ROW = "{:16}{:>9}{:>9}{:>9}{:>9}{:>12}{:>12}"


def main(arguments: list[str]) -> None:
    """Checks one version and prints a table."""
    path = pathlib.Path(arguments[1])
    folder = find_onnx(path)
    version = folder or newest_version(path)
    if version is None:
        raise InputError(
            f"There is no export in {path}; give the folder that "
            "export.saved_model or export.onnx wrote."
        )
    run = _run_version if folder is None else _run_onnx
    description, requests, times, batches, answers = run(version)
    comparisons = {}
    if batches:
        # Imports Keras, which a server does not have.
        quantization = description["limits"].get("quantization")
        tolerance = TOLERANCES[quantization]
        if folder:
            tolerance = ONNX_TOLERANCES[quantization]
            # The reference is float32, as int8 rounds otherwise there.
            description["limits"]["quantization"] = None
        servable = _load_servable(version, description)
        comparisons = _compare_answers(answers, servable, tolerance)
    _print_table(requests, times, comparisons)
    checked = "" if folder else "; every operation is in a stock server"
    print(
        f"{folder_size(version):,} bytes for {description['parameters']:,} "
        f"parameters{checked}.",
        flush=True,
    )
    for name, comparison in comparisons.items():
        if comparison.error is not None:
            raise InputError(
                f"The signature {name} and the model directory have different "
                f"results: {comparison.error}."
            )


def _run_version(version):
    """Returns the description, requests, times, batches and their answers."""
    # Before any of it runs: an export may come from an untrusted source.
    _validate_operations(version)
    description = read_description(version)
    requests = read_warm_up_requests(version)
    batches = []
    if FLAGS.model_dir:
        folder = pathlib.Path(FLAGS.model_dir)
        batches = _make_batches(version, description, folder)
    try:
        session = ServerSession(version)
    except SERVER_ERRORS as error:
        raise InputError(
            f"TensorFlow Serving could not load {version}: {_first_line(error)}"
        ) from error
    with session:
        if session.signatures.keys() != requests.keys():
            raise InputError(
                f"{version} has the signatures {', '.join(session.signatures)} "
                f"and warm-up requests for {', '.join(requests)}; export the "
                "model again with export.saved_model."
            )
        inputs = {
            name: each.inputs for name, each in session.signatures.items()
        }
        times = _measure_all(session, requests)
        answers = _answer_batches(session, inputs, batches)
    return description, requests, times, batches, answers


def _run_onnx(folder):
    """See above; the requests are the first batches."""
    session = OnnxSession(folder)
    description = session.description
    model_dir = pathlib.Path(FLAGS.model_dir or folder)
    batches = _make_batches(folder, description, model_dir)
    requests = {
        name: [{"text": texts} for texts, *_ in batches[:2]]
        for name in session.signatures
    }
    times = _measure_all(session, requests)
    if not FLAGS.model_dir:
        batches = []
    answers = _answer_batches(session, session.signatures, batches)
    return description, requests, times, batches, answers


def _measure_all(session, requests):
    return {name: _measure(session, name, requests[name]) for name in requests}


def _validate_operations(version):
    try:
        unsupported = unsupported_operations(read_meta_graph(version))
    except (OSError, ValueError) as error:
        raise damaged_file_error(version / "saved_model.pb", error) from error
    if unsupported:
        raise InputError(
            f"{version} was not run: it has operations that a stock TensorFlow "
            f"Serving lacks or that access files, {', '.join(unsupported)}; "
            "export the model again with export.saved_model."
        )


def _make_batches(version, description, folder):
    """Returns the arguments of `select_inputs` for batches of random texts."""
    task = read_task(version)
    path = folder / "vocabulary.model"
    with explain_read_errors(path):
        vocabulary = path.read_bytes()
    if (folder / "symbols.json").exists() != (task == "parsing"):
        raise InputError(
            f"{version} was exported for {task}, from another model directory "
            f"than {folder}; give that one."
        )
    count = sum(_BATCH_SIZES)
    source, _ = load_python_tokenizers(vocabulary)
    languages = read_export_languages(description)
    codes = language_pairs(languages, count)
    texts = random_texts(source.proto, (_LENGTHS * count)[:count])
    if languages.codes and languages.target is None:
        texts = [
            languages.select(target=target).tag(text)
            for text, (_, target) in zip(texts, codes)
        ]
    ids = [source.ids(languages.tag(text)) for text in texts]
    columns = texts, texts[::-1], ids, codes
    ends = [*itertools.accumulate(_BATCH_SIZES)]
    return [
        [column[end - size : end] for column in columns]
        for size, end in zip(_BATCH_SIZES, ends)
    ]


def _first_line(error):
    message = str(error).removeprefix("Graph execution error:")
    return message.strip().splitlines()[0]


def _measure(session, name, requests):
    """Returns milliseconds of the warm-up, the next request, and later ones."""
    times = []
    try:
        for request in requests + requests[:1] * (1 + _NUM_REPEATS):
            started = time.perf_counter()
            session.run(name, request)
            times.append(1000 * (time.perf_counter() - started))
    except SERVER_ERRORS as error:
        raise InputError(
            f"The signature {name} fails on a warm-up request, so that a "
            f"server would not load this version: {_first_line(error)}"
        ) from error
    first, *later = times[len(requests) :]
    return sum(times[: len(requests)]), first, statistics.median(later)


def _answer_batches(session, inputs_of_signatures, batches):
    """Returns the texts, inputs and outputs of each batch, by signature."""
    answers, count = {}, len(inputs_of_signatures) * sum(_BATCH_SIZES)
    with ProgressBar("Running signatures", count, "texts") as bar:
        for name, input_names in inputs_of_signatures.items():
            answers[name] = []
            for texts, *columns in batches:
                inputs = select_inputs(input_names, texts, *columns)
                outputs = session.run(name, inputs)
                answers[name].append((texts, inputs, outputs))
                bar.update(len(texts))
    return answers


def _load_servable(version, description):
    """Returns the ServedTranslator or ServedParser of --model_dir."""
    task, limits = read_task(version), description["limits"]
    settings = {name: limits[name] for name in LIMITS[task]}
    if task == "parsing":
        from export.serving.served_parser import ServedParser

        return ServedParser.from_directory(FLAGS.model_dir, **settings)
    from export.model_directory import ModelDirectory
    from export.serving.served_translator import ServedTranslator

    model, tokenizer, _ = ModelDirectory(FLAGS.model_dir).load()
    if limits.get("target_pieces") is not None:
        settings["target_pieces"] = read_target_pieces(version)
    if limits.get("shortlist") is not None:
        path = version / SHORTLIST_FILE
        settings["shortlist"] = read_shortlist(
            path, tokenizer, model.config, limits["shortlist"]
        )
    languages = read_export_languages(description)
    return ServedTranslator(model, tokenizer, languages=languages, **settings)


def _compare_answers(answers, servable, tolerance):
    """Returns the Comparison of each signature with those of a servable."""
    signatures = servable.signatures()
    unknown = sorted(answers.keys() - signatures)
    if unknown:
        raise InputError(
            f"Expected the signatures {', '.join(signatures)}, got "
            f"{', '.join(unknown)}, which cannot be compared; omit "
            "--model_dir, or export with --nocheck."
        )
    comparisons = {name: Comparison(tolerance) for name in answers}
    for name, batches in answers.items():
        for texts, inputs, outputs in batches:
            expected = signatures[name](**inputs)
            expected = {key: expected[key].numpy() for key in expected}
            comparisons[name].add(texts, outputs, expected)
    return comparisons


def _print_table(requests, times, comparisons):
    heads = ["signature", "requests", "warm-up", "first", "later"]
    print(_ROW.format(*heads, "texts", "largest"))
    print(_ROW.format("", "", "ms", "ms", "ms", "equal", "difference"))
    for name, milliseconds in times.items():
        equal = difference = "-"
        if name in comparisons:
            comparison = comparisons[name]
            equal = f"{comparison.num_equal}/{comparison.num_texts}"
            difference = f"{comparison.max_difference:.1e}"
        rounded = [f"{each:.0f}" for each in milliseconds]
        count = len(requests[name])
        print(_ROW.format(name, count, *rounded, equal, difference))


if __name__ == "__main__":
    command.run(main, ["EXPORT"])
