"""An import translates as CTranslate2's converter of Marian's models."""

import ctranslate2
import pytest
import sentencepiece
from ctranslate2.converters import MarianConverter

import keras_transformer as kt
from export.pretrained.marian_reader import read_marian
from export.tokenizers.pretrained_tokenizers import load_tokenizer
from export.translators.translator import Translator
from keras_transformer.config import END_ID, UNKNOWN_ID
from tests.export.pretrained import marian_directory

SENTENCES = marian_directory.SENTENCES["source"]
EXTRA = 10


@pytest.mark.slow
def test_translations_are_those_of_ctranslate2(tmp_path):
    """Its converter takes the paper's sinusoids and PyTorch's epsilon.

    Marian has neither, so that the import is compared with those two in their
    place. At the longest length CTranslate2 leaves the end out, which ours
    counts: only translations that end before are compared.
    """
    folder = marian_directory.write(
        tmp_path, marian_directory.arrays_of(_model())
    )
    ours = _translator(read_marian(folder)).translate(SENTENCES)
    theirs = _translated(folder, folder / "converted")
    compared = set()
    for our, (text, score) in zip(ours, theirs):
        if text is None:
            continue
        assert our.text == text
        assert abs(our.score - score) < 1e-3
        compared.add(round(score, 4))
    assert len(compared) >= 100


def _model():
    """One that ends, and that does not think of unknown pieces.

    CTranslate2 leaves those out of the softmax; Marian and ours do not.
    """
    model = marian_directory.model(seed=7)
    bias = model.output_embedding.bias
    changed = bias.numpy()
    changed[END_ID] += 1.5
    changed[UNKNOWN_ID] = -50.0
    bias.assign(changed)
    return model


def _translator(found):
    config = found.model.config.replace(
        sinusoid_rates="paper",
        layer_norm_epsilon=1e-5,
        max_output_extra=EXTRA,
    )
    changed = kt.Transformer(config)
    changed.set_weights(found.model.get_weights())
    return Translator(changed, load_tokenizer(found.vocabulary), min_length=0)


def _translated(folder, path):
    """CTranslate2's translation of each sentence and its score.

    None for a translation of the greatest length.
    """
    vocabulary = str(folder / "opus.vocab.yml")
    converter = MarianConverter(
        str(folder / "opus.model.npz"), [vocabulary, vocabulary]
    )
    converter.convert(str(path))
    translator = ctranslate2.Translator(str(path), device="cpu")
    source = sentencepiece.SentencePieceProcessor(
        model_proto=marian_directory.spm("source")
    )
    found = []
    for sentence in SENTENCES:
        pieces = source.EncodeAsPieces(sentence)
        (answer,) = translator.translate_batch(
            [pieces],
            beam_size=marian_directory.DECODER["beam-size"],
            length_penalty=marian_directory.DECODER["normalize"],
            max_decoding_length=len(pieces) + EXTRA,
            disable_unk=True,
            min_decoding_length=0,
            return_scores=True,
        )
        # As OPUS-MT's script does it.
        text = "".join(answer.hypotheses[0]).replace("▁", " ").strip()
        is_cut = len(answer.hypotheses[0]) == len(pieces) + EXTRA
        found.append((None if is_cut else text, answer.scores[0]))
    return found
