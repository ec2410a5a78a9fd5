"""Measures translations with terms: BLEU, presence and time.

    python benchmarks/terms.py --model_dir=M --dataset=tatoeba-en-fr

Each sentence gets one to three terms: words of its first reference that its
translation without terms lacks, at random, and the source words to which the
model aligns them. Searches with and without terms alternate in one process.
"""

import os
import pathlib
import random
import statistics
import sys
import time

from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

import keras_transformer as kt
from benchmarks.harness import report
from export.common import command
from export.loading import load_translator
from export.terms.terms import Term, Terms
from export.translators.batches import pad_ids
from export.translators.graph_translator import IDS_SPEC
from export.translators.text_ops import source_word_spans, target_word_spans
from export.translators.translation import word_alignment
from trainers.data import open_corpus
from trainers.scores.bleu_tokenizers import choose_tokenizer
from trainers.scores.evaluation import bleu_difference, score_bleu

FLAGS = flags.FLAGS

flags.DEFINE_string("model_dir", None, "Model directory.", required=True)
flags.DEFINE_string("dataset", "tatoeba-en-fr", "As of trainers.wmt.")
flags.DEFINE_string("source_language", "en", "Its source language.")
flags.DEFINE_string("target_language", "fr", "Its target language.")
flags.DEFINE_string("split", "test", "Split with the references.")
flags.DEFINE_integer("sentences", 1000, "Maximum number.", lower_bound=1)
flags.DEFINE_integer("max_terms", 3, "Terms of a sentence.", lower_bound=1)
flags.DEFINE_multi_integer("beam_size", [4], "Beams; may be repeated.")
flags.DEFINE_integer("rounds", 5, "Timings of each search.", lower_bound=1)

_BATCH_SIZE = 200
_HEADER = (
    *("beam", "sentences", "terms", "present without", "present with"),
    *("BLEU without", "BLEU with", "gain (95 %)", "time (quartiles)"),
)


class SentenceTerms:
    """Takes the place of Terms: each sentence has terms of its own."""

    name, keep = "the references", ()

    def __init__(self, terms):
        self._terms = terms

    def find(self, text, rare):
        del rare
        return self._terms[text]

    def targets(self):
        for terms in self._terms.values():
            for term in terms:
                yield 0, term.target


def main(_):
    translator = load_translator(FLAGS.model_dir)
    corpus = open_corpus(
        FLAGS.dataset, FLAGS.source_language, FLAGS.target_language
    )
    evaluation_set = corpus.evaluation_set(FLAGS.split)
    translations = translator.translate(evaluation_set.sources)
    terms = _choose_terms(
        translator,
        evaluation_set.sources,
        [references[0] for references in evaluation_set.references],
        [each.text for each in translations],
    )
    indices = [*terms][: FLAGS.sentences]
    subset = evaluation_set.subset(indices)
    terms = {evaluation_set.sources[index]: terms[index] for index in indices}
    rows = [_measure(beams, subset, terms) for beams in FLAGS.beam_size]
    print(report.markdown_table(_HEADER, "r" * len(_HEADER), rows))
    print(report.provenance(__file__, sys.argv[1:], "tensorflow"))


def _choose_terms(translator, sources, references, translations):
    """Returns lists of Term by the index of a sentence."""
    generator, chosen = random.Random(1), {}
    links = _align(translator, sources, references)
    for index, (source, reference) in enumerate(zip(sources, references)):
        source_words, words = source.split(), reference.split()
        found = {}
        for source_word, word in links[index]:
            target = words[word].strip('.,!?;:«»"()…')
            variant = source_words[source_word].strip('.,!?;:"()…')
            if not target.isalpha() or not _contains(source, variant):
                continue
            if not _contains(translations[index], target):
                found.setdefault(target, variant)
        targets = sorted(found)
        generator.shuffle(targets)
        targets = targets[: generator.randint(1, FLAGS.max_terms)]
        if targets:
            chosen[index] = [Term(found[target], target) for target in targets]
    return chosen


def _contains(text, word):
    """Returns whether a text has a word as a whole word."""
    return bool(word) and bool(Terms([(word, word)]).find(text))


def _align(translator, sources, references):
    """Returns pairs of source and reference words for each sentence."""
    pairs, links = translator.pairs(sources, references), []
    align = tf.function(
        lambda *ids: kt.force_align(translator.model, *ids),
        input_signature=[IDS_SPEC, IDS_SPEC],
    )
    for start in range(0, len(pairs), _BATCH_SIZE):
        end = start + _BATCH_SIZE
        source, target = (
            tf.constant(pad_ids([pair[side].ids for pair in pairs[start:end]]))
            for side in (0, 1)
        )
        tokenizer, limit = translator.tokenizer, translator.backend.source_limit
        text = tf.constant(sources[start:end])
        spans = source_word_spans(tokenizer.source, text, source, limit)
        links += map(
            word_alignment,
            spans.numpy(),
            target_word_spans(tokenizer.target, target).numpy(),
            align(source, target).numpy(),
        )
    return links


def _measure(beams, evaluation_set, terms):
    """Returns a row of the table."""
    translator = load_translator(FLAGS.model_dir, beam_size=beams)
    times, texts = {False: [], True: []}, {}
    given = {False: None, True: SentenceTerms(terms)}
    for _ in range(FLAGS.rounds + 1):
        for has_terms in times:
            started = time.perf_counter()
            found = translator.translate(
                evaluation_set.sources, terms=given[has_terms]
            )
            times[has_terms].append(time.perf_counter() - started)
            texts[has_terms] = [each.text for each in found]
    present = {
        has_terms: statistics.mean(
            _contains(text, term.target)
            for text, source in zip(texts[has_terms], evaluation_set.sources)
            for term in terms[source]
        )
        for has_terms in times
    }
    tokenize = choose_tokenizer(FLAGS.target_language)
    bleu = {
        has_terms: score_bleu(texts[has_terms], evaluation_set, tokenize).score
        for has_terms in times
    }
    gain = bleu_difference(texts[True], texts[False], evaluation_set, tokenize)
    # Without the first round, which traces the search.
    ratio = report.ratio(times[True][1:], times[False][1:])
    return (
        *map(str, (beams, len(terms), sum(map(len, terms.values())))),
        *(f"{100 * present[each]:.1f} %" for each in times),
        *(f"{bleu[each]:.2f}" for each in times),
        "{difference:+.2f} ({low:+.2f} to {high:+.2f})".format(**gain),
        f"{ratio:.2f}",
    )


if __name__ == "__main__":
    command.run(main)
