"""Translates text with a CTranslate2 model folder."""

import itertools

import sentencepiece

from export.common.errors import InputError
from export.ctranslate2.ctranslate2_weights import (
    SOURCE_VOCABULARY_FILE,
    VOCABULARY_FILE,
)
from export.tokenizers.python_tokenizers import (
    PythonTokenizer,
    load_python_source_tokenizer,
)
from export.translators.batches import BATCH_TOKENS, translate_in_batches
from export.translators.text_ids import list_of_texts
from export.translators.text_translator import BLANK, Translation
from keras_transformer.decoding.search_config import length_penalty

_END = "</s>"


class CTranslate2Translator:
    """Beam search by CTranslate2 on a CPU.

    Args:
        path: folder written by `save_ctranslate2`.
        config: TransformerConfig with the settings of the search.
        max_source_tokens: maximum pieces of a source, the end included; longer
            ones are truncated.
        batch_tokens: source positions in a batch, padding included.

    Attributes:
        compute_type: type of the matrix products, such as "int8_float32".

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
            self._target = sentencepiece.SentencePieceProcessor(
                model_proto=proto
            )
            self._source = PythonTokenizer(proto)
            if (path / SOURCE_VOCABULARY_FILE).exists():
                self._source = load_python_source_tokenizer(
                    (path / SOURCE_VOCABULARY_FILE).read_bytes()
                )
        except (RuntimeError, ValueError, OSError) as error:
            raise InputError(
                f"CTranslate2 cannot load {path}: {error}"
            ) from error
        self.compute_type = self._translator.compute_type

    def translate(self, texts, on_progress=None):
        """Translates a list of str to a list of Translation, in order.

        CTranslate2 ranks by log-probability / length ** alpha; the returned
        score is log-probability / length penalty of the configuration.
        `on_progress` is called with the number of sentences just translated.
        """
        sources = [
            self._source.tokens(text)[: self._limit - 1]
            for text in list_of_texts(texts)
        ]
        answers = translate_in_batches(
            # CTranslate2 appends the end token.
            [len(pieces) + 1 for pieces in sources],
            self._batch_tokens,
            lambda batch: self._search([sources[number] for number in batch]),
            on_progress,
        )
        return [answer or BLANK for answer in answers]

    def _search(self, sources):
        # CTranslate2 has one length limit for a batch, and a translation must
        # not depend on the other sentences.
        return [
            translation
            for _, group in itertools.groupby(sources, len)
            for translation in self._search_equal_lengths([*group])
        ]

    def _search_equal_lengths(self, sources):
        config = self._config
        results = self._translator.translate_batch(
            sources,
            beam_size=config.beam_size,
            length_penalty=config.alpha,
            # Both as in this package's search.
            disable_unk=True,
            min_decoding_length=1,
            max_decoding_length=len(sources[0]) + config.max_extra_tokens,
            return_end_token=True,
        )
        outputs = [result.hypotheses[0] for result in results]
        # The search's own scores are normalized over the allowed tokens only.
        texts = [
            pieces[:-1] if pieces[-1:] == [_END] else pieces
            for pieces in outputs
        ]
        scored = self._translator.score_batch(sources, texts)
        for pieces, score in zip(outputs, scored):
            penalty = length_penalty(
                len(pieces), config.alpha, config.length_penalty
            )
            log_probability = sum(score.log_probs[: len(pieces)])
            yield Translation(
                self._target.decode(pieces), log_probability / float(penalty)
            )
