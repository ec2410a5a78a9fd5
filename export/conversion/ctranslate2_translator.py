"""Translates text with a CTranslate2 model folder."""

import itertools

import sentencepiece

from export.conversion.ctranslate2_weights import (
    SOURCE_VOCABULARY_FILE,
    VOCABULARY_FILE,
)
from export.errors import InputError
from export.tokenizers.plain import (
    PlainTokenizer,
    load_plain_source_tokenizer,
)
from export.translators.batches import BATCH_TOKENS, in_batches
from export.translators.text_ids import list_of_texts
from export.translators.text_translator import BLANK, Translation
from keras_transformer.decoding.rules import length_penalty

_END = "</s>"


class CTranslate2Translator:
    """Beam search by CTranslate2, on this machine's processors.

    It takes and gives text through the SentencePiece models that lie beside
    the weights, so what it answers is what the folder alone is good for.

    Args:
        path: folder of `save_ctranslate2`.
        config: TransformerConfig of the model: its beam, penalty and limits.
        max_source_tokens: longer sources are cut to this many pieces, the
            end counted.
        batch_tokens: source positions in a batch, padding counted.

    Attributes:
        compute_type: what CTranslate2 multiplies in, such as "int8_float32".

    Raises:
        InputError: CTranslate2 cannot load the folder.
    """

    def __init__(
        self, path, config, max_source_tokens, batch_tokens=BATCH_TOKENS
    ):
        import ctranslate2

        self._config = config
        self._limit = max_source_tokens
        self._batch_tokens = batch_tokens
        try:
            self._translator = ctranslate2.Translator(str(path), device="cpu")
            proto = (path / VOCABULARY_FILE).read_bytes()
            self._pieces = sentencepiece.SentencePieceProcessor(
                model_proto=proto
            )
            self._source_pieces = PlainTokenizer(proto)
            if (path / SOURCE_VOCABULARY_FILE).exists():
                self._source_pieces = load_plain_source_tokenizer(
                    (path / SOURCE_VOCABULARY_FILE).read_bytes()
                )
        except (RuntimeError, ValueError, OSError) as error:
            raise InputError(
                f"CTranslate2 cannot load {path}: {error}"
            ) from error
        self.compute_type = self._translator.compute_type

    def translate(self, texts, on_progress=None):
        """Translates sentences.

        Args:
            texts: list of str, a sentence each.
            on_progress: function of the number of sentences just done.

        Returns:
            A list of Translation in the same order. CTranslate2 ranks by
            log-probability / length ** alpha; the score is the
            log-probability / the configuration's own length penalty.
        """
        sources = [
            pieces[: self._limit - 1]
            for pieces in map(self._source_pieces.pieces, list_of_texts(texts))
        ]
        answers = in_batches(
            # The folder's own setting adds the end.
            [len(pieces) + 1 for pieces in sources],
            self._batch_tokens,
            lambda batch: self._ask([sources[number] for number in batch]),
            on_progress,
        )
        return [answer or BLANK for answer in answers]

    def _ask(self, sources):
        # It has one limit for a batch, which must not depend on the others.
        by_length = itertools.groupby(sources, len)
        return [each for _, group in by_length for each in self._search(group)]

    def _search(self, sources):
        """Yields the Translation of each source; all are of one length."""
        config, sources = self._config, list(sources)
        results = self._translator.translate_batch(
            sources,
            beam_size=config.beam_size,
            length_penalty=config.alpha,
            # As ours never does.
            disable_unk=True,
            min_decoding_length=1,
            max_decoding_length=len(sources[0]) + config.max_output_extra,
            return_end_token=True,
        )
        found = [result.hypotheses[0] for result in results]
        # The search's own scores leave out what it may not say.
        scored = self._translator.score_batch(
            sources, [_without_end(pieces) for pieces in found]
        )
        for pieces, each in zip(found, scored):
            yield self._translation(pieces, sum(each.log_probs[: len(pieces)]))

    def _translation(self, pieces, log_probability):
        penalty = length_penalty(
            len(pieces), self._config.alpha, self._config.length_penalty
        )
        return Translation(
            self._pieces.decode(pieces), log_probability / float(penalty)
        )


def _without_end(pieces):
    return pieces[:-1] if pieces[-1:] == [_END] else pieces
