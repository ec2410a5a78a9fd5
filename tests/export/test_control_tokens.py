"""A text is text: no tokenizer makes a control token or a tag of it."""

import functools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from export.keras_hub_task import TransformerTokenizer
from export.parsing.word_tokenizer import WordTokenizer
from export.tokenizers import sentencepiece_model
from export.tokenizers.pretrained_tokenizers import load_tokenizer
from export.tokenizers.python_tokenizers import OPUS_MT, load_python_tokenizers
from export.tokenizers.tokenizer import Tokenizer
from tests.export import odd_vocabularies

# "<s>_" is what a table's second <s> is called in ours.
NAMES = [*odd_vocabularies.CONTROL, *odd_vocabularies.TAGS]
NAMES += ["</s>", "<unk>", "<s>_", "<mask>", "<0x41>", "\u2581</s>"]
UNITS = [*NAMES, "\u4f60\u597d", "\u3002", "ba", " ", "  ", "\t", "\u2581"]
TEXTS = st.lists(
    st.lists(
        st.sampled_from(UNITS) | st.characters(exclude_categories=["Cs"])
    ).map("".join),
    min_size=1,
    max_size=8,
)


def _encoder(make, attribute="encode"):
    """Returns a function of OPTIONS to a vocabulary and what encodes texts."""

    def made(name):
        proto = odd_vocabularies.proto(name)
        return proto, getattr(make(proto), attribute)

    return made


def _keras_hub(proto):
    return TransformerTokenizer(proto, add_eos=True)


def _side(name, rules=""):
    side = getattr(load_tokenizer(odd_vocabularies.pair(rules)), name)
    return side.proto, side.encode


def _plain(name, rules=""):
    sides = load_python_tokenizers(odd_vocabularies.pair(rules))
    side = sides[name == "target"]
    return _side(name, rules)[0], lambda texts: [*map(side.ids, texts)]


KINDS = {
    **{name: (_encoder(Tokenizer), name) for name in odd_vocabularies.OPTIONS},
    "parser": (_encoder(WordTokenizer), "nmt_nfkc"),
    "KerasHub": (_encoder(_keras_hub, "__call__"), "bytes"),
    "KerasHub on JAX": (_encoder(_keras_hub, "_tokenize_spm"), "lossless"),
    "source": (_side, "source"),
    "target": (_side, "target"),
    "OPUS": (_side, "source", OPUS_MT),
    "plain source": (_plain, "source"),
    "plain target": (_plain, "target"),
    "plain OPUS": (_plain, "source", OPUS_MT),
}
TAGGED = {"source", "OPUS", "plain source", "plain OPUS"}


@functools.cache
def tokenizer(kind):
    """Returns the ids that no text may have, and what encodes texts."""
    make, *arguments = KINDS[kind]
    proto, encode = make(*arguments)
    pieces = sentencepiece_model.ModelProto.FromString(proto).pieces
    return {
        number
        for number, piece in enumerate(pieces)
        if piece.type == piece.CONTROL
        # What a user defines is text, wherever it stands.
        or piece.type != piece.USER_DEFINED
        and piece.piece in odd_vocabularies.TAGS
    }, encode


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20)
@given(texts=TEXTS)
@example(texts=[f"\u4f60{name}\u597d" for name in NAMES])
@example(texts=[f"ba {name} ba{name}" for name in NAMES])
def test_text_is_text(kind, texts):
    forbidden, encode = tokenizer(kind)
    for text, row in zip(texts, encode(texts), strict=True):
        *ids, end = map(int, row)
        assert end == 3
        begin = text.strip("\t ").startswith(">>")
        if kind in TAGGED and begin:
            ids = ids[1:]
        assert not forbidden & {*ids}, (text, ids)


@pytest.mark.parametrize("rules", ["", OPUS_MT])
def test_a_tag_is_one_in_front_alone(rules):
    source = load_tokenizer(odd_vocabularies.pair(rules)).source
    tagged, inside = source.encode(
        [" >>deu<<>>fra<<\u4f60", "\u4f60>>fra<<\u597d"]
    )
    assert source.id_to_token(tagged[0]) == ">>deu<<"
    for ids in (tagged[1:], inside):
        names = [source.id_to_token(number) for number in ids]
        assert not {*names} & {*odd_vocabularies.TAGS}


@pytest.mark.parametrize(
    "options", [{"eos_piece": "$"}, {"control_symbols": ["<s>x", "%"]}]
)
def test_a_vocabulary_whose_control_pieces_text_can_have_is_refused(options):
    proto = odd_vocabularies.trained(["ba ka do", "do ka"] * 9, **options)
    for kind in (Tokenizer, TransformerTokenizer):
        with pytest.raises(ValueError, match="for its control piece|'</s>'"):
            kind(proto)


def test_control_ids_are_no_text():
    side = load_tokenizer(odd_vocabularies.pair()).source
    control = {side.id_to_token(i): i for i in tokenizer("source")[0]}
    words = side.encode(["\u4f60\u597d"])[0][:-1].tolist()
    row = [0, control["<mask>"], *words, 2, control["<s>_"], 3]
    assert side.decode([row]) == ["\u4f60\u597d"]
