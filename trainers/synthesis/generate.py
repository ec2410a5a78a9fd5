"""Generates pairs from lines: filters, beam search or sampling, and noise."""

import collections
import itertools

import numpy as np
import sacrebleu

import keras_transformer as kt
from export.common.errors import InputError
from export.lines.files import join_lines
from trainers.scores import bleu_tokenizers
from trainers.synthesis.shards import ShardResult

# Seeds are non-negative int32.
_NUM_SEEDS = 2**31


def generate_pairs(translator, lines, options):
    """Translates Lines and filters the pairs; returns a ShardResult."""
    counts = collections.Counter(read=len(lines))
    lengths = translator.lengths([line.text for line in lines])
    accepted, pairs = [], []
    for line, length in zip(lines, lengths):
        if not line.text:
            counts["blank"] += 1
        # Lines longer than the model's maximum have length None.
        elif length is None or length > options.max_pieces:
            counts["too_long"] += 1
        else:
            accepted.append(line)
    counts["translated"] = 0
    if not accepted:
        return ShardResult(counts, pairs)
    texts = [line.text for line in accepted]
    answers = _generate_translations(translator, accepted, options)
    ids = translator.encode_pairs(texts, answers)
    scores = [None] * len(accepted)
    if options.min_score is not None:
        scores = translator.score(texts, answers)
    for line, answer, pair, score in zip(accepted, answers, ids, scores):
        reason = _reject_answer(answer, pair, score, options)
        if reason:
            counts[reason] += 1
            continue
        source = line.text
        if options.direction == "backward":
            source, answer = answer, source
        pairs.append((add_noise(source, line.number, options), answer))
    counts["translated"] = len(pairs)
    return ShardResult(counts, pairs)


def _reject_answer(answer, ids, score, options):
    """Returns why a translation is rejected, or None."""
    if not answer:
        return "empty_translation"
    if options.max_ratio is not None:
        # Without end tokens, which would distort ratios of short sentences.
        short, long = sorted((len(ids.source) - 1, len(ids.target) - 1))
        if long > options.max_ratio * short:
            return "length_ratio"
    if score is not None and score < options.min_score * len(ids.target):
        return "low_score"
    return None


def _generate_translations(translator, lines, options):
    generate = {"beam": _search, "sample": _sample}[options.decoding]
    candidates = [
        [
            join_lines(each.text).replace("\t", " ").strip()
            for each in translations
        ]
        for translations in generate(translator, lines, options)
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
            f"Expected --best_of of at most the beam's {translator.beam_size}, "
            f"got {options.best_of}; give a larger --beam_size."
        )
    # A sentence may occur several times with different references.
    texts = [*dict.fromkeys(line.text for line in lines)]
    found = dict(zip(texts, translator.n_best(texts, options.best_of)))
    return [found[line.text] for line in lines]


def _sample(translator, lines, options):
    sampling = kt.SamplingConfig(
        options.best_of, options.temperature, options.top_k, options.top_p
    )
    texts = [line.text for line in lines]
    seeds = [(options.seed + line.number) % _NUM_SEEDS for line in lines]
    return translator.sample(texts, seeds, sampling)


def add_noise(text, number, options):
    """Drops and permutes words of a source, by seed and line; adds the tag."""
    if options.word_drop or options.word_swap:
        generator = np.random.default_rng((options.seed, number))
        words = drop_words(text.split(), options.word_drop, generator)
        text = " ".join(permute_words(words, options.word_swap, generator))
    return f"{options.tag} {text}" if options.tag else text


def drop_words(words, probability, generator):
    """Drops each word with a probability, but never all words."""
    keep = generator.random(len(words)) >= probability
    keep[generator.integers(len(words))] |= not keep.any()
    return list(itertools.compress(words, keep))


def permute_words(words, distance, generator):
    """Moves words by at most `distance` (Lample et al. 2018, section 2.3)."""
    keys = np.arange(len(words))
    keys = keys + generator.uniform(0, distance + 1, len(words))
    return [words[index] for index in np.argsort(keys, kind="stable")]
