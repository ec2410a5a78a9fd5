"""Terms inside a graph: the tokens of targets, and terms of sentences."""

import functools
import typing
from collections.abc import Sequence

import tensorflow as tf

import keras_transformer as kt
from export.common.errors import InputError
from export.documents.patterns import NO_SPACES
from export.terms.kept_items import words
from export.terms.terms import Term, Terms, is_before_word, is_joined
from export.tokenizers import sentencepiece_model
from export.translators.text_ops import WHITE_SPACE
from export.translators.translation import Sentence
from keras_transformer.config import END_ID, UNKNOWN_ID
from keras_transformer.types import Tensor

if typing.TYPE_CHECKING:
    from export.tokenizers.pretrained_tokenizers import TokenizerPair
    from export.tokenizers.tokenizer import Tokenizer

# Text before a term, so that it is split as within a sentence; also its tokens.
_CONTEXT = "'"
_MARK = "\x01"
# Punctuation within addresses, and numbers.
_CONNECTORS = "./:-_@=&#,"
_CONTEXT_TOKENS = (_CONTEXT, "▁" + _CONTEXT, "<0x27>", "<unk>")


def word_edges(tokenizer: "Tokenizer") -> kt.WordEdges | None:
    """Returns the kt.WordEdges of a Tokenizer's tokens.

    None if its tokens have spaces at their ends, as no terms can be found then.
    """
    model = sentencepiece_model.ModelProto.FromString(tokenizer.proto)
    if model.trainer_spec.treat_whitespace_as_suffix:
        return None
    pieces = model.pieces[: tokenizer.vocabulary_size]
    texts = [
        # Other pieces, such as bytes, may be anything.
        each.piece if each.type in (each.NORMAL, each.USER_DEFINED) else "a"
        for each in pieces
    ]
    joins_previous = [is_joined(text[0]) for text in texts]
    joins_previous[END_ID] = False
    return kt.WordEdges(
        joins_previous,
        [is_joined(text[-1]) for text in texts],
        [is_before_word(text[-1]) for text in texts],
        [text[0] in _CONNECTORS and is_joined(text[-1]) for text in texts],
        [text.strip(_CONNECTORS) == "" for text in texts],
    )


def find_sentence_terms(
    tokenizers: "Tokenizer | TokenizerPair",
    terms: Terms,
    sentences: Sequence[Sentence],
) -> list[list[Term]]:
    """Returns the Terms of each Sentence.

    Of kept items it returns only what the vocabulary can spell. `tokenizers` is
    a Tokenizer or TokenizerPair.
    """
    rare = _rare_words(tokenizers.source, sentences) if terms.keep else ()
    found = [terms.find(sentence.text, rare) for sentence in sentences]
    variants = {
        variant
        for row in found
        for term in row
        if term.is_kept
        for variant in term.variants
    }
    rows = tokenizers.target.encode([*variants])
    # Normalization may leave nothing but the end id.
    spelled = {
        variant
        for variant, ids in zip(variants, rows)
        if len(ids) > 1 and UNKNOWN_ID not in ids
    }
    return [
        [
            term
            for term in row
            if not term.is_kept or spelled.issuperset(term.variants)
        ]
        for row in found
    ]


def _rare_words(tokenizer, sentences):
    """Returns words of Sentences that are spelled as bytes in any case."""
    byte_ids = _byte_ids(tokenizer.proto)
    texts = [
        sentence.text
        for sentence in sentences
        if not byte_ids.isdisjoint(sentence.ids)
    ]
    found = {word for text in texts for word in words(text)}
    for change in str, str.lower:
        rows = tokenizer.encode([change(word) for word in found])
        found = {
            word
            for word, ids in zip(found, rows)
            if not byte_ids.isdisjoint(ids)
        }
    return found


@functools.lru_cache(maxsize=16)
def _byte_ids(proto):
    pieces = sentencepiece_model.ModelProto.FromString(proto).pieces
    return frozenset(
        index for index, each in enumerate(pieces) if each.type == each.BYTE
    )


def validate_targets(tokenizer: "Tokenizer", terms: Terms) -> None:
    """Raises InputError for Terms with targets that tokens cannot spell."""
    targets: typing.Any = [*terms.targets()]
    if not targets:
        return
    lines, targets = zip(*targets)
    ids, _ = tokenize_terms(tokenizer, tf.constant(targets)[:, None])
    # The first alternative follows a space.
    spelled = tokenizer.decode(ids[:, 0, 0])
    for line, target, text in zip(lines, targets, spelled):
        if text != target:
            raise InputError(
                f"Line {line} of {terms.name} has the target {target!r}, which "
                f"the model's vocabulary spells {text!r}; correct or omit it."
            )


def tokenize_terms(
    tokenizer: "Tokenizer", targets: Tensor
) -> tuple[Tensor, Tensor]:
    """Tokenizes terms, string [B, C], variants separated by "|", "" for none.

    Returns `Constraints.terms`, int32 [B, C, A, L], which has each variant as
    it is spelled after a space and after another character; and bool [B, C],
    whether the tokens spell each term otherwise.
    """
    batch, count = tf.unstack(tf.shape(targets))
    targets = tf.strings.regex_replace(targets, WHITE_SPACE, " ")
    variants = tf.strings.split(tf.reshape(targets, [-1]), "|")
    variants = variants.with_values(tf.strings.strip(variants.values))
    variants = tf.ragged.boolean_mask(variants, variants != "")
    spaced, attached = (
        variants.with_values(_ids_after(tokenizer, text, variants.values))
        for text in (f"{_CONTEXT} ", _CONTEXT)
    )
    spelled = tokenizer.detokenize(spaced.values.to_tensor())
    is_wrong = variants.with_values(spelled != variants.values)
    is_wrong = tf.reduce_any(is_wrong, axis=1)
    ids = tf.concat([spaced, attached], axis=1).to_tensor()
    missing = tf.cast(tf.shape(ids)[1:] == 0, tf.int32)
    ids = tf.pad(ids, [[0, 0], [0, missing[0]], [0, missing[1]]])
    shape = [batch, count, tf.shape(ids)[1], tf.shape(ids)[2]]
    return tf.reshape(ids, shape), tf.reshape(is_wrong, [batch, count])


def find_copies(sources: Tensor, targets: Tensor) -> Tensor:
    """Returns which targets have their source as first variant.

    All are string [B, C]; returns boolean [B, C].
    """
    return (targets != "") & (
        tf.strings.regex_replace(targets, r"(?s)\|.*", "") == sources
    )


def find_terms(text: Tensor, terms: Tensor) -> Tensor:
    """Returns which terms, string [B, C], texts [B] have: boolean [B, C].

    As `Terms.find`; "" is no term.
    """
    terms = tf.strings.regex_replace(terms, WHITE_SPACE, " ")
    terms = tf.strings.regex_replace(terms, r" *(\| *)+", "|")
    terms = tf.strings.regex_replace(terms, r"^[| ]|[| ]$", "")
    quoted = tf.strings.regex_replace(_mark_units(terms), r"\\", r"\\E\\\\\\Q")
    quoted = tf.strings.regex_replace(quoted, r"\|", r"\\E|\\Q")
    patterns = tf.strings.join([r"(?s).*(?:\Q", quoted, r"\E).*"])
    texts = tf.broadcast_to(_mark_units(text)[:, None], tf.shape(terms))
    found = tf.map_fn(
        lambda pair: tf.strings.regex_full_match(*pair),
        (tf.reshape(texts, [-1]), tf.reshape(patterns, [-1])),
        fn_output_signature=tf.bool,
    )
    return tf.reshape(found, tf.shape(terms)) & (terms != "")


def _mark_units(text):
    """Surrounds words and the letters of scripts without spaces by marks."""
    text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
    text = tf.strings.regex_replace(text, WHITE_SPACE, " ")
    text = tf.strings.regex_replace(tf.strings.strip(text), _MARK, "")
    for pattern in f"([{NO_SPACES}])", r"([\p{L}\p{M}\p{N}]+)":
        marked = rf"{_MARK}\1{_MARK}"
        text = tf.strings.regex_replace(text, pattern, marked)
    return text


def _ids_after(tokenizer, context, texts):
    """Returns the ids of texts after a context, ragged [N, None].

    Texts that share a token with the context have none.
    """
    text = tokenizer.clean_text(tf.strings.join([context, texts]))
    ids = tokenizer.tokenize(text)
    first = tokenizer.ids_to_tokens(ids[:, :2].to_tensor(shape=[None, 2]))
    is_context = tf.reduce_any(first[..., None] == _CONTEXT_TOKENS, axis=-1)
    is_space = first[:, 0] == "▁"
    dropped = tf.where(is_space & is_context[:, 1], 2, 0)
    dropped = tf.where(is_context[:, 0], 1, dropped)
    index = tf.ragged.range(ids.row_lengths(), row_splits_dtype=tf.int64)
    index = index.with_values(tf.cast(index.values, tf.int32))
    last = tf.cast(ids.row_lengths(), tf.int32) - 1
    dropped = tf.where(dropped == 0, last, dropped)
    is_kept = tf.gather(dropped, ids.value_rowids()) <= index.values
    is_kept &= index.values < tf.gather(last, ids.value_rowids())
    return tf.ragged.boolean_mask(ids, ids.with_values(is_kept))
