"""Generates pairs from lines: filters, beam search or sampling."""

import collections
from collections.abc import Sequence
from typing import TYPE_CHECKING

import sacrebleu

import keras_transformer as kt
from export.common.errors import InputError
from export.lines.files import clean_line
from trainers.data.cleaning import exceeds_ratio
from trainers.scores import bleu_tokenizers
from trainers.synthesis.shards import Line, ShardResult
from trainers.synthesis.word_noise import add_word_noise

if TYPE_CHECKING:
    from export.translators.translator import Translator
    from trainers.synthesis.workers import SynthesisOptions

# Seeds are non-negative int32.
_NUM_SEEDS = 2**31


def generate_pairs(
    translator: "Translator", lines: Sequence[Line], options: "SynthesisOptions"
) -> ShardResult:
    """Translates Lines and filters the pairs; returns a ShardResult."""
    counts = collections.Counter(read=len(lines), translated=0)
    sentences = translator.sentences([line.text for line in lines])
    accepted: list[Line] = []
    pairs: list[tuple[str, str]] = []
    for line, sentence in zip(lines, sentences):
        if not line.text:
            counts["blank"] += 1
        elif sentence.truncated or sentence.length > options.max_pieces:
            counts["too_long"] += 1
        else:
            accepted.append(line)
    if not accepted:
        return ShardResult(counts, pairs)
    texts = [line.text for line in accepted]
    translations = _translate(translator, accepted, options)
    sentence_pairs = translator.pairs(texts, translations)
    scores: Sequence[float | None] = [None] * len(accepted)
    if options.min_score is not None:
        scores = translator.score_pairs(sentence_pairs)
    for line, translation, pair, score in zip(
        accepted, translations, sentence_pairs, scores
    ):
        reason = _rejection_reason(translation, pair, score, options)
        if reason:
            counts[reason] += 1
            continue
        source, target = line.text, translation
        if options.direction == "backward":
            source, target = translation, line.text
        pairs.append((add_word_noise(source, line.index, options), target))
    counts["translated"] = len(pairs)
    return ShardResult(counts, pairs)


def _rejection_reason(translation, pair, score, options):
    """Returns the name of a count, or None if the pair is accepted."""
    if not translation:
        return "empty_translation"
    if options.max_ratio is not None:
        lengths = pair.source.length, pair.target.length
        if exceeds_ratio(*lengths, options.max_ratio):
            return "length_ratio"
    if score is not None and score < options.min_score * pair.target.length:
        return "low_score"
    return None


def _translate(translator, lines, options):
    """Returns one translation of each line, the best of `options.best_of`."""
    generate = _search if options.decoding == "beam" else _sample
    candidates = [
        [clean_line(each.text.replace("\t", " ")) for each in n_best]
        for n_best in generate(translator, lines, options)
    ]
    if options.best_of == 1:
        return [texts[0] for texts in candidates]
    metric = sacrebleu.CHRF()
    if options.metric == "bleu":
        metric = bleu_tokenizers.make_bleu(
            options.tokenize, effective_order=True
        )

    def similarity(text, reference):
        return metric.sentence_score(text, [reference]).score

    return [
        # Ties: the more probable candidate, or the one sampled first.
        max(texts, key=lambda text: similarity(text, line.reference))
        for texts, line in zip(candidates, lines)
    ]


def _search(translator, lines, options):
    if options.best_of > translator.beam_size:
        raise InputError(
            f"--best_of={options.best_of} exceeds the beam size "
            f"{translator.beam_size}; give a larger --beam_size."
        )
    # A sentence may occur several times with different references.
    texts = [*dict.fromkeys(line.text for line in lines)]
    n_best = dict(zip(texts, translator.n_best(texts, options.best_of)))
    return [n_best[line.text] for line in lines]


def _sample(translator, lines, options):
    sampling = kt.SamplingConfig(
        options.best_of, options.temperature, options.top_k, options.top_p
    )
    texts = [line.text for line in lines]
    seeds = [(options.seed + line.index) % _NUM_SEEDS for line in lines]
    return translator.sample(texts, seeds, sampling)
