"""Shows the attention of a model on an HTML page or in an SVG picture.

`python -m export.attention --model M --text "..." --output page.html`

The page is one file that works offline: tokens in two columns, joined by lines
in one colour for each head, as in Figures 3 to 5 of the paper, and the matrix
of attention weights. The flags select the view shown first, which --svg=FILE
writes as a picture. --figure=3, 4 or 5 uses the paper's own sentence and view.
"""

import pathlib
import sys

from absl import flags

from export.attention_views.view import (
    FIGURE_SENTENCES,
    AttentionView,
    paper_figure,
    paper_layer,
    update_view,
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
    "Translation that the model is forced to generate; that of its beam search "
    "by default.",
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
    "Whether pieces are merged to words, the default: the weight on a word is "
    "the sum over its pieces, the row of a word the mean over its pieces.",
)
flags.DEFINE_string(
    "word",
    None,
    "Query whose lines alone are shown: the first such word, or #4 for the "
    "fourth query if no word is #4 itself.",
)

_VIEW = ("kind", "layer", "heads", "unit", "word")
_PAGE = "attention.html"


def main(arguments):
    """Writes the page, the picture, or both."""
    del arguments
    text = _text()
    _check_model()
    sentence = _read(text)
    views, note = (), ""
    heads = tuple(range(sentence.heads))
    view = AttentionView("cross", paper_layer(sentence.layers["cross"]), heads)
    if FLAGS.figure:
        views, note = paper_figure(int(FLAGS.figure), sentence)
        view = views[0][1]
    changes = {name: FLAGS[name].value for name in _VIEW}
    view = update_view(view, sentence, **changes)
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


def _text():
    if (FLAGS.text is None) == (FLAGS.figure is None):
        raise InputError(
            "Give either --text with a sentence or --figure=3, 4 or 5 of the "
            "paper."
        )
    if FLAGS.text is None:
        return FIGURE_SENTENCES[int(FLAGS.figure)]
    return FLAGS.text


def _check_model():
    path = pathlib.Path(FLAGS.model)
    if newest_version(path):
        raise InputError(
            f"Expected a model directory as --model, and {path} is an export, "
            "which has the mean of the heads only."
        )


def _read(text):
    from export.attention_views.reader import AttentionReader
    from export.attention_views.word_attention import SentenceAttention

    reader = AttentionReader.from_directory(FLAGS.model)
    given = None if FLAGS.translation is None else [FLAGS.translation]
    return SentenceAttention(reader.read([text], given)[0])


def _texts(sentence, note):
    notes = [note] if note else []
    for side, is_truncated in (
        ("text", sentence.maps.source_truncated),
        ("translation", sentence.maps.target_truncated),
    ):
        if is_truncated:
            notes.append(
                f"The {side} is truncated to the maximum length of the model."
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
