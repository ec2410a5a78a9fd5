"""Reads M2M-100 and NLLB-200: `M2M100ForConditionalGeneration.save_pretrained`.

Both are Fan et al. 2020's network: pre-norm, fairseq's positions, one matrix
for all embeddings, and the target's language as the decoder's second input.
"""

import pathlib
import re

from export.common.errors import InputError
from export.pretrained.config_files import (
    HF_CONFIG_FIELDS,
    HF_TOKENIZER_FIELDS,
    read_bytes,
    read_fields,
    split_keys,
    wrong_value_error,
)
from export.pretrained.fast_tokenizer import read_fast_tokenizer
from export.pretrained.hugging_face_reader import (
    read_bias,
    read_config,
    read_settings,
    read_size,
    read_transformer,
)
from export.pretrained.pretrained_model import PretrainedModel
from export.pretrained.vocabulary import (
    complete_vocab,
    make_vocabulary,
    read_added_tokens,
    read_pieces,
    read_vocab,
)
from export.pretrained.weights_file import open_weights_file
from export.tokenizers.python_tokenizers import (
    LANGUAGE_PAIR,
    add_kind,
    join_vocabularies,
)

_CONFIG_FILE, _TOKENIZER_FILE = "config.json", "tokenizer_config.json"
_SPM_FILE, _VOCAB_FILE = "sentencepiece.bpe.model", "vocab.json"
# First ids of fairseq's dictionaries, also where the SentencePiece model has
# other special pieces.
_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
_DEFAULTS = {
    "activation_function": "relu",
    "decoder_start_token_id": 2,
    "eos_token_id": 2,
    "scale_embedding": True,
}
# config.json and tokenizer_config.json of transformers 4.4 to 5.24.
_CONFIG_FIELDS = HF_CONFIG_FIELDS | split_keys(
    {
        "model_type": ("m2m_100",),
        "tokenizer_class": (
            *("M2M100Tokenizer", "NllbTokenizer", "NllbTokenizerFast"),
        ),
        "tie_word_embeddings share_encoder_decoder_embeddings": (True,),
        # The first position is the one after it.
        "pad_token_id": (1,),
    }
)
_TOKENIZER_FIELDS = HF_TOKENIZER_FIELDS | split_keys(
    {
        # Their order and names are in the files of the vocabulary.
        "src_lang tgt_lang num_madeup_words mask_token "
        "bos_token cls_token sep_token additional_special_tokens "
        "extra_special_tokens": HF_TOKENIZER_FIELDS["vocab_file"],
        "language_codes": ("m2m100", "wmt21"),
        "tokenizer_class": _CONFIG_FIELDS["tokenizer_class"],
        # Whether the language follows the text, as in a version of NLLB.
        "legacy_behaviour": (False,),
    }
)
# Languages by `language_codes` of an M2M100Tokenizer, in the order of their
# ids, which follow those of vocab.json.
_M2M_CODES = {
    "m2m100": (
        "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa "
        "ff fi fr fy ga gd gl gu ha he hi hr ht hu hy id ig ilo is it ja jv "
        "ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc "
        "or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr "
        "uk ur uz vi wo xh yi yo zh zu"
    ),
    "wmt21": "en ha is ja cs ru zh de",
}
_M2M_LANGUAGE, _NLLB_LANGUAGE = "__([a-z]{2,3})__", "([a-z]{3}_[A-Z][a-z]{3})"


def read_m2m(folder: pathlib.Path) -> PretrainedModel:
    """Reads a directory of `save_pretrained` as a PretrainedModel.

    docs/pretrained.md lists the files. Raises InputError if one is missing,
    damaged or of another architecture.
    """
    fields, generation, warnings = read_settings(
        folder, _DEFAULTS, _CONFIG_FIELDS
    )
    size = read_size(fields, "vocab_size")
    vocabulary, languages, vocabulary_warnings = _read_vocabulary(
        folder, size, generation
    )
    weights = open_weights_file(folder)
    bias, bias_warnings = read_bias(weights, size, vocabulary, generation)
    warnings += vocabulary_warnings + bias_warnings
    config = read_config(
        fields,
        vocabulary_size=len(vocabulary.checkpoint_ids),
        norm="pre",
        sinusoid_rates="fairseq",
        # Of the begin id, which has the row of the end.
        output_bias=True,
        **generation.search_fields,
    )
    sides = vocabulary, vocabulary
    model = read_transformer(weights, config, (size, size), bias, *sides)
    source = add_kind(vocabulary.proto, LANGUAGE_PAIR)
    return PretrainedModel(
        model, join_vocabularies(source, vocabulary.proto), languages, warnings
    )


def _read_vocabulary(folder, size, generation):
    """Returns the Vocabulary, the default languages and warnings."""
    vocab, spm, path = _read_pieces(folder)
    fields = read_fields(folder / _TOKENIZER_FILE, missing_ok=True)
    if (folder / _VOCAB_FILE).exists():
        codes = _M2M_CODES[fields.get("language_codes", "m2m100")]
        tokens = [f"__{code}__" for code in codes.split()]
    else:
        tokens = _nllb_tokens(folder)
    for token in tokens:
        vocab.setdefault(token, len(vocab))
    added, warnings = read_added_tokens(
        folder, _TOKENIZER_FIELDS, (*_SPECIAL, "<mask>", *vocab)
    )
    vocab |= added
    is_m2m = any(re.fullmatch(_M2M_LANGUAGE, piece) for piece in vocab)
    language = _M2M_LANGUAGE if is_m2m else _NLLB_LANGUAGE
    codes = {
        piece: match[1]
        for piece in vocab
        if (match := re.fullmatch(language, piece))
    }
    if not codes:
        raise InputError(
            f"{folder / _TOKENIZER_FILE} has no languages, such as eng_Latn or "
            "__en__; save the tokenizer with save_pretrained."
        )
    named = set(vocab)
    vocab, more_warnings = complete_vocab(vocab, size, path)
    tags = {piece: f">>{code}<<" for piece, code in codes.items()}
    vocab = {tags.get(piece, piece): vocab[piece] for piece in vocab}
    end_id = vocab.get("</s>")
    if (generation.begin_id, generation.end_id) != (end_id, end_id):
        raise wrong_value_error(
            _CONFIG_FILE,
            "decoder_start_token_id and eos_token_id",
            [generation.begin_id, generation.end_id],
            f"the id of </s>, {end_id},",
        )
    unnamed = {*vocab} - {*tags.values()} - named
    vocabulary = make_vocabulary(
        vocab,
        spm,
        vocab["<unk>"],
        end_id,
        end_id,
        path,
        padding_entry="<pad>",
        control={*tags.values(), "<mask>", *unnamed},
    )
    languages = tuple(
        fields.get(name) if fields.get(name) in codes.values() else None
        for name in ("src_lang", "tgt_lang")
    )
    return vocabulary, languages, warnings + more_warnings


def _read_pieces(folder):
    """Returns the vocab without languages, a SentencePiece model, its path."""
    spm_path, fast_path = folder / _SPM_FILE, folder / "tokenizer.json"
    if not spm_path.exists() and fast_path.exists():
        return *read_fast_tokenizer(fast_path), fast_path
    spm = read_bytes(spm_path)
    if (folder / _VOCAB_FILE).exists():
        return read_vocab(folder / _VOCAB_FILE), spm, spm_path
    pieces = [*_SPECIAL, *read_pieces(spm, spm_path)]
    return {piece: i for i, piece in enumerate(pieces)}, spm, spm_path


def _nllb_tokens(folder):
    """Returns the special tokens after the pieces, in the order of their ids.

    A tokenizer.json has them already.
    """
    tokens = []
    for file in (_TOKENIZER_FILE, "special_tokens_map.json"):
        fields = read_fields(folder / file, missing_ok=True)
        for name in ("additional_special_tokens", "extra_special_tokens"):
            tokens += fields.get(name, [])
    texts = [
        each["content"] if isinstance(each, dict) else str(each)
        for each in tokens
    ]
    return [each for each in [*texts, "<mask>"] if each not in _SPECIAL]
