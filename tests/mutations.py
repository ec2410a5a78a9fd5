"""Checks that the tests notice wrong numbers and lost data.

Each mutation is a change of one line that makes a number wrong or loses data.
It is made in a copy of the checkout, and the tests named beside it must fail:

    python -m tests.mutations [--jobs=2] [name ...]

Prints which mutations were caught and which survived; exits with 1 if any
survived, and with 2 if a mutation's line is no longer in the code.
"""

import argparse
import concurrent.futures
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import typing

ROOT = pathlib.Path(__file__).parent.parent


class Mutation(typing.NamedTuple):
    """One change, and the tests that must notice it.

    Attributes:
        name: what goes wrong.
        file: path from the checkout's root.
        before: text that occurs once in the file.
        after: what takes its place.
        tests: paths for pytest, separated by spaces.
    """

    name: str
    file: str
    before: str
    after: str
    tests: str


_KT = "keras_transformer"
_LAYERS = f"tests/{_KT}/test_transformer.py tests/{_KT}/layers"
_SEARCH = f"tests/{_KT}/decoding"
_LOSS = f"tests/{_KT}/test_loss.py"
_BATCHES = "tests/trainers/batches"
_PREPARATION = "tests/trainers/data/test_preparation.py"
_STEP = "tests/trainers/training/test_training_model.py"
_CHECKPOINTS = "tests/trainers/training/test_checkpoints.py"

MUTATIONS = [
    Mutation(*row)
    for row in [
        # Layers.
        (
            "attention scaled by d_k",
            f"{_KT}/layers/attention.py",
            "1.0 / math.sqrt(queries.shape[-1])",
            "1.0 / queries.shape[-1]",
            _LAYERS,
        ),
        (
            "mask inverted",
            f"{_KT}/layers/attention.py",
            "ops.where(mask, np.float32(0), _MASKED_SCORE)",
            "ops.where(mask, _MASKED_SCORE, np.float32(0))",
            _LAYERS,
        ),
        (
            "attention dropout without effect",
            f"{_KT}/layers/attention.py",
            "used = weights if drop is None else drop(weights)",
            "used = weights",
            _LAYERS,
        ),
        (
            "addition theorem with a wrong sign",
            f"{_KT}/layers/embedding.py",
            "sin = sin_coarse * cos_fine + cos_coarse * sin_fine",
            "sin = sin_coarse * cos_fine - cos_coarse * sin_fine",
            _LAYERS,
        ),
        (
            "wavelengths to 1000",
            f"{_KT}/layers/embedding.py",
            "10000.0 ** (-np.arange(pairs) / divisor)",
            "1000.0 ** (-np.arange(pairs) / divisor)",
            _LAYERS,
        ),
        (
            "embeddings not scaled",
            f"{_KT}/layers/embedding.py",
            "scale=math.sqrt(self.d_model)",
            "scale=1.0",
            _LAYERS,
        ),
        (
            "embeddings begin too large",
            f"{_KT}/layers/embedding.py",
            "normal_initializer(self.d_model**-0.5)",
            "normal_initializer(1.0)",
            _LAYERS,
        ),
        (
            "no residual connection",
            f"{_KT}/layers/transformer_layer.py",
            "total = inputs + self.output_dropout",
            "total = self.output_dropout",
            _LAYERS,
        ),
        (
            "pre-norm normalises after the sum too",
            f"{_KT}/layers/transformer_layer.py",
            "        if self.normalize_first:\n            return total\n",
            "",
            _LAYERS,
        ),
        (
            "no activation",
            f"{_KT}/layers/feed_forward.py",
            "self._activate = keras.activations.get(activation)",
            "self._activate = keras.activations.linear",
            _LAYERS,
        ),
        (
            "feed-forward dropout without effect",
            f"{_KT}/layers/feed_forward.py",
            "inner = self.inner_dropout(inner, training=training)",
            "inner = self.inner_dropout(inner, training=False)",
            _LAYERS,
        ),
        (
            "causal mask hides the position itself",
            f"{_KT}/layers/masks.py",
            "(distance >= 0)[None]",
            "(distance > 0)[None]",
            _LAYERS,
        ),
        (
            "window one too narrow",
            f"{_KT}/layers/masks.py",
            "(ops.abs(distance) <= window)[None]",
            "(ops.abs(distance) < window)[None]",
            _LAYERS,
        ),
        (
            "packed pairs see one another's source",
            f"{_KT}/layers/masks.py",
            "memory_mask = ops.logical_and(same_pair, memory_mask)",
            "memory_mask = ops.logical_or(same_pair, memory_mask)",
            _LAYERS,
        ),
        (
            "source padding is attended to",
            f"{_KT}/layers/decoder.py",
            "            attention_mask=memory_mask,\n",
            "            attention_mask=None,\n",
            _LAYERS,
        ),
        (
            "key bias gets a gradient",
            f"{_KT}/layers/base.py",
            "biases[index] = ops.stop_gradient(biases[index])",
            "pass",
            f"tests/{_KT}/test_gradients.py",
        ),
        (
            "projections begin with all of Glorot's variance",
            f"{_KT}/layers/attention.py",
            "_VARIANCE = 0.5",
            "_VARIANCE = 1.0",
            _LAYERS,
        ),
        (
            "no final norm of a pre-norm stack",
            f"{_KT}/layers/transformer_layer.py",
            "        if self.normalize_first:\n            self.final_norm",
            "        if False:\n            self.final_norm",
            _LAYERS,
        ),
        (
            "blocks of a window see the block before last",
            f"{_KT}/layers/local_attention.py",
            "slice_blocks(0, size - left, left)",
            "slice_blocks(0, 0, left)",
            _LAYERS,
        ),
        # Loss and schedule.
        (
            "smoothing shared over all V",
            f"{_KT}/loss.py",
            "share = smoothing / max(vocabulary_size - 1, 1)",
            "share = smoothing / vocabulary_size",
            _LOSS,
        ),
        (
            "padding counts in perplexity",
            f"{_KT}/loss.py",
            "ops.cast(each, weights.dtype) * weights for",
            "ops.cast(each, weights.dtype) for",
            _LOSS,
        ),
        (
            "gradient of the label is missing",
            f"{_KT}/loss.py",
            "        - label_share * label_rows\n",
            "",
            _LOSS,
        ),
        (
            "mean over padding",
            f"{_KT}/loss.py",
            'reduction: str | None = "mean_with_sample_weight"',
            'reduction: str | None = "mean"',
            _LOSS,
        ),
        (
            "R-Drop's gradient is twice as large",
            f"{_KT}/loss.py",
            "half = 0.5 * upstream[..., None]",
            "half = upstream[..., None]",
            _LOSS,
        ),
        (
            "warm-up too steep",
            f"{_KT}/schedule.py",
            "step * self.warmup_steps**-1.5",
            "step * self.warmup_steps**-1.4",
            f"tests/{_KT}/test_schedule.py",
        ),
        (
            "first update with the second's rate",
            f"{_KT}/schedule.py",
            "return self.schedule(step + 1)",
            "return self.schedule(step + 2)",
            f"tests/{_KT}/test_schedule.py {_STEP}",
        ),
        # Search and sampling.
        (
            "length penalty divides by 5",
            f"{_KT}/decoding/search_config.py",
            "(5.0 + length) / 6.0",
            "(5.0 + length) / 5.0",
            _SEARCH,
        ),
        (
            "search stops by the present length",
            f"{_KT}/decoding/beam_search.py",
            "best_live / config.penalty(best_length)",
            "best_live / config.penalty(length)",
            _SEARCH,
        ),
        (
            "beams keep their own past",
            f"{_KT}/decoding/beam_decoder.py",
            "return ops.where(newest[None, None, :, None], own, inherited)",
            "return ops.where(newest[None, None, :, None], own, ancestry)",
            _SEARCH,
        ),
        (
            "stopped sentences take more hypotheses",
            f"{_KT}/decoding/beam_search.py",
            "may_end = may_end & ~search.stopped[:, None]",
            "pass",
            _SEARCH,
        ),
        (
            "minimum length one too short",
            f"{_KT}/decoding/beam_search.py",
            "too_short = length < constraints.min_lengths",
            "too_short = length + 1 < constraints.min_lengths",
            _SEARCH,
        ),
        (
            "prefix beyond the maximum length",
            f"{_KT}/decoding/beam_search.py",
            "(tokens != PAD_ID) & (length < constraints.max_lengths)",
            "tokens != PAD_ID",
            _SEARCH,
        ),
        (
            "forbidden tokens are allowed",
            f"{_KT}/decoding/candidates.py",
            "ops.where(tokens == token, IMPOSSIBLE, all_log_probs)",
            "all_log_probs",
            _SEARCH,
        ),
        (
            "highest logits of another beam",
            f"{_KT}/decoding/candidates.py",
            "rows = best_groups + groups * arange(batch * beams)[:, None]",
            "rows = best_groups + 0 * arange(batch * beams)[:, None]",
            _SEARCH,
        ),
        (
            "all samples of a sentence draw alike",
            f"{_KT}/decoding/sampling.py",
            "hash_to_uniform(seeds[:, None], sample_indices, index)",
            "hash_to_uniform(seeds[:, None], sample_indices * 0, index)",
            _SEARCH,
        ),
        (
            "top-p draws one token more",
            f"{_KT}/decoding/sampling.py",
            "in_nucleus = total_before < ",
            "in_nucleus = total_before - probabilities < ",
            _SEARCH,
        ),
        (
            "outputs may be one token longer",
            f"{_KT}/decoding/translate.py",
            "ops.sum(non_padding, axis=1) - 1\n",
            "ops.sum(non_padding, axis=1)\n",
            _SEARCH,
        ),
        (
            "ensemble's mean not normalized",
            f"{_KT}/decoding/ensemble.py",
            "return ops.logsumexp(log_probs, axis=0) - "
            "math.log(log_probs.shape[0])",
            "return ops.mean(log_probs, axis=0)",
            _SEARCH,
        ),
        (
            "alignment of the next step",
            f"{_KT}/decoding/alignment.py",
            "inputs = shift_right(tokens)",
            "inputs = tokens",
            _SEARCH,
        ),
        # Batches.
        (
            "end ids enter the decoder",
            "trainers/batches/token_pairs.py",
            "        target[labels == 0] = 0\n",
            "",
            _BATCHES,
        ),
        (
            "rows lost where replicas do not divide",
            "trainers/batches/token_pairs.py",
            "last = len(labels) * (replica + 1) // replicas",
            "last = len(labels) // replicas * (replica + 1)",
            _BATCHES,
        ),
        (
            "packed positions from 1",
            "trainers/batches/token_pairs.py",
            "ranges(np.zeros(len(self._lengths), np.int64), self._lengths)",
            "ranges(np.ones(len(self._lengths), np.int64), self._lengths)",
            _BATCHES,
        ),
        (
            "a resumed epoch begins anew",
            "trainers/batches/batch_plan.py",
            "shuffle(0, len(batches))[skip:]",
            "shuffle(0, len(batches))",
            _BATCHES,
        ),
        (
            "the last row of each batch is lost",
            "trainers/batches/batch_plan.py",
            "row_indices = row_order[first:last]",
            "row_indices = row_order[first : last - 1]",
            _BATCHES,
        ),
        (
            "pairs of the longest length are lost",
            "trainers/batches/token_pairs.py",
            "fits = longer <= max_tokens",
            "fits = longer < max_tokens",
            _BATCHES,
        ),
        # Prepared data.
        (
            "shards in the order in which threads finish",
            "export/common/parallel.py",
            "        if not in_order:\n",
            "        if in_order:\n",
            _PREPARATION,
        ),
        (
            "parallel maps hold an item too many",
            "export/common/parallel.py",
            "max(max_pending() - len(pending), 0)",
            "max(max_pending() - len(pending) + 1, 0)",
            _PREPARATION,
        ),
        (
            "data of another vocabulary are used",
            "trainers/data/preparation.py",
            "        validate_codec(folder, manifest, vocabulary, symbols)\n",
            "",
            _PREPARATION,
        ),
        (
            "all segmentations are the same",
            "trainers/data/preparation.py",
            "samples=times > 1,",
            "samples=False,",
            _PREPARATION,
        ),
        # The training step.
        (
            "loss over this replica's tokens alone",
            "trainers/training/training_model.py",
            'loss = sums["loss"] / global_tokens',
            'loss = sums["loss"] / _count_tokens(labels)',
            f"{_STEP} tests/trainers/training/test_replicas.py",
        ),
        (
            "first micro-batch counted twice",
            "trainers/training/training_model.py",
            "(tf.constant(1), compute(0))",
            "(tf.constant(0), compute(0))",
            "tests/trainers/training/test_replicas.py",
        ),
        (
            "clipped gradient summed over replicas",
            "trainers/training/training_model.py",
            "return [gradient / replicas for gradient in gradients]",
            "return list(gradients)",
            "tests/trainers/training/test_replicas.py",
        ),
        (
            "replicas drop out alike",
            "trainers/training/strategies.py",
            "return seed + tf.stack([offset, tf.zeros_like(offset)])",
            "return seed",
            "tests/trainers/training/test_replicas.py",
        ),
        (
            "Adam without bias correction",
            "trainers/training/training_model.py",
            "rate = rate * tf.sqrt(square_factor) / mean_factor",
            "rate = tf.identity(rate)",
            "tests/trainers/training/test_optimizer.py",
        ),
        (
            "the rate before a cooldown is rounded",
            f"{_KT}/schedule.py",
            "factor = ops.where(remaining > self.cooldown_steps, 1.0, factor)",
            "factor = ops.minimum(factor, 1.0)",
            "tests/trainers/wmt/test_time_budget.py",
        ),
        (
            "an average without a warm-up",
            "trainers/training/training_base.py",
            "updates / (updates + 9.0), self.average_momentum",
            "self.average_momentum, self.average_momentum",
            "tests/trainers/training/test_training_model.py",
        ),
        # Checkpoints.
        (
            "average divided by what was asked for",
            "trainers/training/checkpoints.py",
            "(total / len(averaged))",
            "(total / count)",
            _CHECKPOINTS,
        ),
        (
            "the latest checkpoints are removed",
            "trainers/training/checkpoints.py",
            "for old in self.steps()[::-1][self.keep :]:",
            "for old in self.steps()[self.keep :]:",
            _CHECKPOINTS,
        ),
        (
            "resume skips a step",
            "trainers/training/checkpoints.py",
            "return step, json.loads(",
            "return step + 1, json.loads(",
            _CHECKPOINTS,
        ),
        (
            "random states are not saved",
            "trainers/training/checkpoints.py",
            '*_name_variables("state", state),',
            '*_name_variables("state", state[:0]),',
            f"{_CHECKPOINTS} tests/trainers/wmt/test_resume.py",
        ),
        # Scores.
        (
            "perplexity of a sentence",
            "trainers/scores/evaluation.py",
            "math.exp(-math.fsum(scores) / tokens)",
            "math.exp(-math.fsum(scores) / len(scores))",
            "tests/trainers/scores/test_evaluation.py",
        ),
        (
            "hyphens are not split",
            "trainers/scores/evaluation.py",
            "return _HYPHEN.sub(_SPLIT, metric.tokenizer(",
            "return _HYPHEN.sub('-', metric.tokenizer(",
            "tests/trainers/scores/test_evaluation.py",
        ),
        (
            "brackets of punctuation count",
            "trainers/scores/brackets.py",
            "[0, *itertools.accumulate(mask)]",
            "list(range(len(mask) + 1))",
            "tests/trainers/scores/test_brackets.py",
        ),
        # Export.
        (
            "translations in the order of the batches",
            "export/translators/batches.py",
            "                results[index] = result\n",
            "                results[batch.index(index)] = result\n",
            "tests/export/translators/test_batches.py",
        ),
        (
            "a window's cache adds instead of replacing",
            "export/translators/graph_translator.py",
            "cache = add(cache, -tf.gather_nd(cache, indices))",
            "pass",
            "tests/export/translators/test_in_place_cache.py",
        ),
        (
            "stream columns not interleaved",
            "export/pretrained/weight_mapping.py",
            "np.arange(width).reshape(2, width // 2).T.ravel()",
            "np.arange(width)",
            "tests/export/pretrained/test_hugging_face.py"
            " tests/export/pretrained/test_marian.py",
        ),
        (
            "CTranslate2 gets sinusoids of another position",
            "export/ctranslate2/ctranslate2_model.py",
            'np.arange(rows, dtype="int32")',
            'np.arange(1, rows + 1, dtype="int32")',
            "tests/export/ctranslate2/test_ctranslate2.py",
        ),
        (
            "a file is renamed before it is whole",
            "export/common/storage.py",
            "        yield temporary\n        if mode",
            "        yield target\n        if mode",
            "tests/export/common/test_storage.py",
        ),
        (
            "served scores of another beam",
            "export/translators/graph_translator.py",
            "tokens, scores = tokens[:, :1], scores[:, :1]",
            "tokens, scores = tokens[:, -1:], scores[:, :1]",
            "tests/export/translators/test_translator.py",
        ),
        # What one text passes, whatever runs the model.
        (
            "blank text has the search's score",
            "export/translators/text_graph.py",
            "tf.where(has_text[:, None], output.scores[:, :n], blank_scores)",
            "output.scores[:, :n]",
            "tests/export/serving/test_served_signatures.py",
        ),
        (
            "cut text is not said to be truncated",
            "export/translators/text_graph.py",
            "return ids, has_more_characters | has_more_ids",
            "return ids, has_more_characters",
            "tests/export/serving/test_served_signatures.py",
        ),
        (
            "eager text is not cleaned",
            "export/tokenizers/tokenizer.py",
            "text = self.clean_text(tf.constant(texts))",
            "text = tf.constant(texts)",
            "tests/export/tokenizers",
        ),
        (
            "graphs mark acronyms that are tokens",
            "export/tokenizers/tokenizer.py",
            "is_marked &= self._id_tokenizer.string_to_id(token) == UNKNOWN_ID",
            "is_marked &= self._id_tokenizer.string_to_id(token) >= 0",
            "tests/export/tokenizers/test_letter_case.py",
        ),
        (
            "a longer sequence may repeat",
            "keras_transformer/decoding/candidates.py",
            "(positions < index) & (positions >= size - 1)",
            "(positions < index) & (positions >= size)",
            "tests/keras_transformer/decoding/test_beam_search.py",
        ),
        (
            "noise in pairs that the rates do not choose",
            "trainers/augmentation/noise.py",
            "share = 1 - math.prod(1 - rate for rate in rates.values())",
            "share = min(1, sum(rates.values()))",
            "tests/trainers/augmentation/test_noise.py",
        ),
        (
            "the pairs of the lowest scores",
            "trainers/data/pair_scores.py",
            'order = np.argsort(-scores, kind="stable")',
            'order = np.argsort(scores, kind="stable")',
            "tests/trainers/data/test_pair_scores.py",
        ),
        (
            "OPUS' rules drop line feeds",
            "export/tokenizers/python_tokenizers.py",
            'character_class("C[^s]", excluded="\\n")',
            'character_class("C[^s]")',
            "tests/export/tokenizers/test_opus_normalization.py",
        ),
        (
            "repetition of the source is searched again",
            f"{_KT}/decoding/translate.py",
            "ops.maximum(count_repetitions(source, size), 1)",
            "1",
            _SEARCH,
        ),
        (
            "a new seed clears a translator's vocabulary",
            "export/translators/graph_backend.py",
            "key = (key, *(each.restore_resources() for each in sides))",
            "pass",
            "tests/export/translators/test_translator.py",
        ),
        (
            "the search's own minimum length one too short",
            f"{_KT}/decoding/search_config.py",
            "ops.minimum(max_lengths, config.min_length + 1)",
            "ops.minimum(max_lengths, config.min_length)",
            "tests/export/translators/test_translator.py",
        ),
        (
            "the model's search wins over the given one",
            f"{_KT}/config.py",
            "return dataclasses.replace(self, **changes)",
            "return dataclasses.replace(self)",
            "tests/export/translators/test_translator.py",
        ),
        (
            "alternatives are of one rank",
            "export/http_server/document_translator.py",
            "row[min(self.rank, len(row) - 1) :][:1]",
            "row[:1]",
            "tests/export/http_server/test_options.py",
        ),
        (
            "sentences of documents get others' translations",
            "export/documents/document.py",
            "return [translations[segment.source] for segment in segments]",
            "return [*translations.values()][: len(segments)]",
            "tests/export/documents/test_documents.py",
        ),
        (
            "characters of HTML within XML are lost",
            "export/documents/markup.py",
            "pairs = zip(item.raw, raws)",
            "pairs = zip(item.raw, item.raw)",
            "tests/export/documents/test_markup.py",
        ),
        (
            "scores of pairs in the order of the batches",
            "export/translators/translator.py",
            "lambda batch: function([items[index] for index in batch])",
            "lambda batch: function([items[index] for index in sorted(batch)])",
            "tests/export/translators/test_translator.py",
        ),
        (
            "ONNX: limits of other sentences after one has stopped",
            "export/onnx/search_graph.py",
            'limits = graph.op("Gather", self._limits, running)',
            "limits = self._limits[: running.size(0)]",
            "tests/export/onnx/test_search_graph.py",
        ),
        (
            "ONNX: later positions in float32",
            "export/onnx/transformer_graph.py",
            "angles = positions.cast(DOUBLE)[..., None] * rates + shifts",
            "angles = (positions.cast(FLOAT)[..., None] * np.float32(rates) "
            "+ np.float32(shifts)).cast(DOUBLE)",
            "tests/export/onnx/test_search_graph.py",
        ),
        (
            "alternatives of the language between",
            "export/http_server/libre_translate.py",
            "count + 1 if hop is route[-1] else 1",
            "count + 1 if hop is route[0] else 1",
            "tests/export/http_server/test_several_models.py",
        ),
        (
            "a key's limit counts no requests",
            "export/http_server/api_keys.py",
            "        times.append(now)\n",
            "",
            "tests/export/http_server/test_several_models.py",
        ),
    ]
]


def run(mutation):
    """Applies a mutation to a copy; returns (verdict, seconds)."""
    source = (ROOT / mutation.file).read_text(encoding="utf-8")
    if source.count(mutation.before) != 1:
        return "outdated", 0.0
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder, "checkout")
        shutil.copytree(
            ROOT,
            copy,
            ignore=shutil.ignore_patterns(".git", ".venv", "runs", "exports"),
        )
        mutated = source.replace(mutation.before, mutation.after)
        (copy / mutation.file).write_text(mutated, encoding="utf-8")
        # Beside the checkout lies what some tests read.
        (copy.parent / "shared").symlink_to(ROOT.parent / "shared")
        tests = mutation.tests.split()
        command = [sys.executable, "-m", "pytest", "-x", "-p", "no:xdist"]
        result = subprocess.run(
            [*command, *tests],
            cwd=copy,
            capture_output=True,
            text=True,
            check=False,
        )
    verdict = {0: "survived", 1: "caught"}.get(result.returncode)
    if verdict is None:
        verdict = f"pytest exited with {result.returncode}"
        print(result.stdout[-2000:], result.stderr[-2000:])
    return verdict, time.monotonic() - begin


def main():
    """Runs all mutations, or those whose names are given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("names", nargs="*", help="all by default")
    arguments = parser.parse_args()
    chosen = [
        mutation
        for mutation in MUTATIONS
        if not arguments.names or mutation.name in arguments.names
    ]
    verdicts = []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as threads:
        for mutation, (verdict, seconds) in zip(
            chosen, threads.map(run, chosen)
        ):
            verdicts.append(verdict)
            print(f"{verdict:9} {seconds:5.0f} s  {mutation.name}", flush=True)
    caught = verdicts.count("caught")
    print(f"{caught} of {len(chosen)} caught")
    if "outdated" in verdicts:
        sys.exit(2)
    sys.exit(caught < len(chosen))


if __name__ == "__main__":
    main()
