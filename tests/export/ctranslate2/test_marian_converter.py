"""An import translates as CTranslate2's converter of Marian's models."""

import pytest
import sentencepiece

import keras_transformer as kt
from export.pretrained.marian_reader import read_marian
from export.tokenizers.pretrained_tokenizers import load_tokenizer
from export.translators.translator import Translator
from keras_transformer.config import END_ID, UNKNOWN_ID
from tests.export.pretrained import marian_directory

ctranslate2 = pytest.importorskip("ctranslate2")
SENTENCES = marian_directory.SENTENCES["source"]
EXTRA = 10


@pytest.mark.slow
def test_translations_match(tmp_path):
    """The converter takes the paper's sinusoids and PyTorch's epsilon.

    Marian has neither, so that the import is compared with those two in their
    place. CTranslate2 omits the end at the longest length, so that only
    translations that end before are compared.
    """
    model = marian_directory.model(seed=7)
    # The end is likely; unknown pieces, which CTranslate2 excludes from the
    # softmax, are not.
    bias = model.output_embedding.bias
    changed = bias.numpy()
    changed[END_ID] += 1.5
    changed[UNKNOWN_ID] = -50.0
    bias.assign(changed)
    folder = marian_directory.write(tmp_path, marian_directory.arrays_of(model))
    pretrained = read_marian(folder)
    config = pretrained.model.config.replace(
        sinusoid_rates="paper",
        layer_norm_epsilon=1e-5,
        max_extra_tokens=EXTRA,
    )
    changed = kt.Transformer(config)
    changed.set_weights(pretrained.model.get_weights())
    tokenizer = load_tokenizer(pretrained.vocabulary)
    ours = Translator(changed, tokenizer, min_length=0).translate(SENTENCES)
    theirs = _translate(folder, folder / "converted")
    compared = set()
    for our, (text, score) in zip(ours, theirs):
        if text is not None:
            assert our.text == text
            assert abs(our.score - score) < 1e-3
            compared.add(round(score, 4))
    assert len(compared) >= 100


def _translate(folder, path):
    """Returns CTranslate2's translations and scores.

    A translation of the greatest length is None.
    """
    vocabulary = str(folder / "opus.vocab.yml")
    converter = ctranslate2.converters.MarianConverter(
        str(folder / "opus.model.npz"), [vocabulary, vocabulary]
    )
    converter.convert(str(path))
    translator = ctranslate2.Translator(str(path), device="cpu")
    source = sentencepiece.SentencePieceProcessor(
        model_proto=marian_directory.spm("source")
    )
    answers = []
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
        is_full = len(answer.hypotheses[0]) == len(pieces) + EXTRA
        answers.append((None if is_full else text, answer.scores[0]))
    return answers
