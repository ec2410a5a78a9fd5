"""The ways from a line to an answer: search, draws, and the best of several."""

import sacrebleu

import keras_transformer as kt
from export.errors import InputError
from export.lines.files import join_lines
from trainers.scores import bleu_tokenizers

# Seeds are int32 that are not negative.
_SEEDS = 2**31


def generate_translations(translator, lines, options):
    """Returns the models' answer to each line: a list of str.

    Args:
        translator: Translator.
        lines: list of Line.
        options: SynthesisOptions.

    Raises:
        InputError: more answers are to be compared than the beam holds.
    """
    candidates = _CANDIDATES[options.decoding](translator, lines, options)
    if options.best_of == 1:
        return [texts[0] for texts in candidates]
    score = sentence_metric(options.metric, options.tokenize)
    return [
        # Of equals the first: the likelier, or the one drawn before.
        max(texts, key=lambda text: score(text, line.reference))
        for texts, line in zip(candidates, lines)
    ]


def _search(translator, lines, options):
    if options.best_of > translator.beam_size:
        raise InputError(
            f"--best_of={options.best_of} is more than the beam holds, "
            f"{translator.beam_size}; search with "
            f"--beam_size={options.best_of}, or compare fewer."
        )
    # A corpus may have a sentence several times, with other references.
    texts = [*dict.fromkeys(line.text for line in lines)]
    found = _texts(translator.n_best(texts, options.best_of))
    found = dict(zip(texts, found, strict=True))
    return [found[line.text] for line in lines]


def _sample(translator, lines, options):
    drawing = kt.SamplingRules(
        options.best_of, options.temperature, options.top_k, options.top_p
    )
    texts = [line.text for line in lines]
    seeds = [(options.seed + line.number) % _SEEDS for line in lines]
    return _texts(translator.sample(texts, seeds, drawing))


_CANDIDATES = {"beam": _search, "sample": _sample}


def _texts(found):
    return [
        [
            join_lines(each.text).replace("\t", " ").strip()
            for each in translations
        ]
        for translations in found
    ]


def sentence_metric(name, tokenize):
    """Returns what scores one sentence: a function of text and reference.

    Args:
        name: "bleu" or "chrf".
        tokenize: sacreBLEU's tokeniser, for BLEU.

    Returns:
        A function that returns 0 to 100; BLEU with its orders up to the
        sentence's length alone, as `sacrebleu.sentence_bleu`.
    """
    if name == "chrf":
        metric = sacrebleu.CHRF()
    else:
        metric = bleu_tokenizers.metric(tokenize, effective_order=True)
    return lambda text, reference: (
        metric.sentence_score(text, [reference]).score
    )
