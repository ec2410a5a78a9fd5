"""Model directories with a vocabulary for each side, or tags of languages."""

from export.model_directory import ModelDirectory
from export.pretrained.m2m_reader import read_m2m
from export.tokenizers.python_tokenizers import (
    OPUS_MT,
    add_kind,
    join_vocabularies,
    make_tagged_vocabulary,
)
from tests import made_up_text
from tests.export import odd_vocabularies, tiny
from trainers.data.vocabulary import train_vocabulary

# The default languages of each kind, and others.
LANGUAGES = {
    "opus": (None, "fra", None, "deu"),
    "mixture": (None, "fr", None, "de"),
    "both": ("en", "fr", "de", "en"),
    "nllb": ("eng_Latn", "fra_Latn", "fra_Latn", "eng_Latn"),
}
TEXTS = ["ba ka, lo…", "mi\0 sa ２", " "]
PREFIXES = ["ba a", "", ""]


def tags(source, target):
    """Returns the tags of a text as a str."""
    return "".join(f">>{code}<<" for code in (source, target) if code)


def vocabulary(kind):
    """Returns the bytes of the vocabulary of a kind but "nllb"."""
    texts = made_up_text.sentences()
    if kind == "opus":
        source = odd_vocabularies.trained(
            texts, control_symbols=[">>deu<<", ">>fra<<"]
        )
        target = odd_vocabularies.trained(texts, vocab_size=200)
        return join_vocabularies(add_kind(source, OPUS_MT), target)
    codes = (">>en<<", ">>de<<", ">>fr<<")
    proto = train_vocabulary(texts, 200, tags=codes)
    return make_tagged_vocabulary(proto, 2 if kind == "both" else 1)


def write_model(path, kind, m2m_folder):
    """Writes the directory of a kind of LANGUAGES."""
    if kind == "nllb":
        pretrained = read_m2m(m2m_folder / "nllb")
        model, proto = pretrained.model, pretrained.vocabulary
    else:
        source_size = {"opus": 150, "both": 200}.get(kind, 0)
        model = tiny.model(source_vocabulary_size=source_size)
        proto = vocabulary(kind)
    source, target, *_ = LANGUAGES[kind]
    run = {"dataset": "made up", "target_language": target}
    run["source_language"] = source or "en"
    config = model.config.replace(max_extra_tokens=2, beam_size=2)
    ModelDirectory(path).write(model, proto, run, config)
    return str(path)
