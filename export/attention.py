"""Shows what a model attends to, on a page or in a picture.

`python -m export.attention --model M --text "..." --output page.html`

The page is one file that needs no network: tokens in two columns with a
coloured line a head, as in Figures 3 to 5 of the paper, and the full matrix
beside them. What is shown is chosen on the page; the flags say what it opens
with. --svg=FILE writes one view as a picture.

--figure=3, 4 or 5 takes the paper's own sentence and view.
"""

import pathlib
import sys

from absl import flags

from export.attention_views.view import (
    SENTENCES,
    AttentionView,
    chosen_view,
    paper_figure,
    paper_layer,
)
from export.common import command
from export.common.atomic_files import atomic_write
from export.common.errors import InputError
from export.serving.export_directory import newest_version

FLAGS = flags.FLAGS

flags.DEFINE_string("model", None, "Model directory.", required=True)
flags.DEFINE_string("text", None, "Sentence to translate.")
flags.DEFINE_string(
    "translation",
    None,
    "Translation to decode by force; by default the one of beam search.",
)
flags.DEFINE_enum(
    "figure",
    None,
    ["3", "4", "5"],
    "Figure of the paper whose English sentence and view are taken.",
)
flags.DEFINE_string(
    "output",
    None,
    "HTML file for the page, - for standard output; attention.html by default, "
    "and with --svg no page.",
)
flags.DEFINE_string("svg", None, "SVG file for the view.")
flags.DEFINE_enum(
    "kind",
    None,
    ["encoder", "decoder", "cross"],
    "Self-attention of the encoder or the decoder, or cross-attention; cross "
    "by default.",
)
flags.DEFINE_integer(
    "layer",
    None,
    "Number of the layer, from 1; by default five sixths up, as in the paper.",
)
flags.DEFINE_list(
    "heads", None, "Numbers of the heads, from 1; all by default."
)
flags.DEFINE_enum(
    "unit",
    None,
    ["words", "pieces"],
    "Whether subword pieces are merged to words: the sum over the pieces of "
    "the word looked at, the mean over those of the word that looks. Words "
    "by default.",
)
flags.DEFINE_string(
    "word",
    None,
    "Word that looks, whose lines alone are shown: the first such word, or "
    "#4 for the fourth of all where no word is #4 itself.",
)

_VIEW = ("kind", "layer", "heads", "unit", "word")
_PAGE = "attention.html"


def main(arguments):
    """Writes the page, the picture, or both."""
    del arguments
    if (FLAGS.text is None) == (FLAGS.figure is None):
        raise InputError(
            "Give either --text with a sentence or --figure=3, 4 or 5, whose "
            "sentence is the paper's."
        )
    path = pathlib.Path(FLAGS.model)
    if newest_version(path):
        raise InputError(
            f"{path} is an export, which has the mean of the heads only; give "
            "the model directory that it was made from."
        )
    sentence = _read_attention()
    views, note = (), ""
    heads = tuple(range(sentence.heads))
    view = AttentionView("cross", paper_layer(sentence.layers["cross"]), heads)
    if FLAGS.figure:
        views, note = paper_figure(int(FLAGS.figure), sentence)
        view = views[0][1]
    chosen = {name: FLAGS[name].value for name in _VIEW}
    view = chosen_view(view, sentence, **chosen)
    if FLAGS.svg:
        from export.attention_views.svg import attention_svg

        _write(FLAGS.svg, attention_svg(sentence, view))
    output = FLAGS.output or ("" if FLAGS.svg else _PAGE)
    if output:
        from export.attention_views.html import attention_html

        texts = _texts(sentence, note)
        page = attention_html(sentence, view, texts, views)
        if output == "-":
            print(page.removesuffix("\n"))
        else:
            _write(output, page)


def _read_attention():
    # TensorFlow takes seconds to load, and wrong flags are refused before.
    from export.attention_views.reader import AttentionReader
    from export.attention_views.words import AttendedSentence

    text = FLAGS.text
    if text is None:
        text = SENTENCES[int(FLAGS.figure)]
    reader = AttentionReader.from_directory(FLAGS.model)
    given = None if FLAGS.translation is None else [FLAGS.translation]
    return AttendedSentence(reader.read([text], given)[0])


def _texts(sentence, note):
    notes = [note] if note else []
    for side, truncated in (
        ("text", sentence.maps.source_truncated),
        ("translation", sentence.maps.target_truncated),
    ):
        if truncated:
            notes.append(
                f"The {side} exceeds the model's maximum length; only its "
                "beginning is shown."
            )
    name = pathlib.Path(FLAGS.model).resolve().name
    encoder, decoder = (
        _counted(sentence.layers[kind], "layer")
        for kind in ("encoder", "decoder")
    )
    stacks = f"encoder of {encoder} and decoder of {decoder}"
    if encoder == decoder:
        stacks = f"encoder and decoder of {encoder}"
    heads = _counted(sentence.heads, "head")
    is_given = FLAGS.translation is not None
    return {
        "about": f"{name}: {stacks} with {heads}",
        "translation_term": "Translation, given" if is_given else "Translation",
        "note": " ".join(notes),
    }


def _counted(number, thing):
    return f"1 {thing}" if number == 1 else f"{number} {thing}s"


def _write(path, text):
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    size = pathlib.Path(path).stat().st_size
    print(f"Wrote {path} ({size:,} bytes).", file=sys.stderr)


if __name__ == "__main__":
    command.run(main)
