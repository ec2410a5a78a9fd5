"""Shows the attention of a model on an HTML page or in an SVG picture.

`python -m export.attention --model M --text "..." --output page.html`

The page is one file that works offline: tokens in two columns, joined by lines
in one color for each head, as in Figures 3 to 5 of the paper, and the matrix
of attention weights. The flags select the view shown first.
"""

import pathlib
import sys

from absl import flags

from export.attention_views.rendering import attention_html, attention_svg
from export.attention_views.view import (
    FIGURE_SENTENCES,
    AttentionView,
    paper_figure,
    paper_layer,
    update_view,
)
from export.common import command
from export.common.errors import InputError
from export.common.storage import atomic_write

FLAGS = flags.FLAGS

flags.DEFINE_string("model", None, "Model directory.", required=True)
flags.DEFINE_string("text", None, "Sentence to translate.")
flags.DEFINE_string(
    "translation",
    None,
    "Translation that the model is forced to generate; its own by default.",
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
    "Self-attention of encoder or decoder, or cross-attention, the default.",
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


def main(arguments):
    """Writes the page, the picture, or both."""
    del arguments
    if (FLAGS.text is None) == (FLAGS.figure is None):
        raise InputError("Give either --text or --figure.")
    sentence = _read_attention()
    views, note = (), ""
    heads = tuple(range(sentence.heads))
    view = AttentionView("cross", paper_layer(sentence.layers["cross"]), heads)
    if FLAGS.figure:
        views, note = paper_figure(int(FLAGS.figure), sentence)
        view = views[0][1]
    changes = {name: FLAGS[name].value for name in _VIEW}
    view = update_view(view, sentence, **changes)
    if FLAGS.svg:
        _write(FLAGS.svg, attention_svg(sentence, view))
    output = FLAGS.output or ("" if FLAGS.svg else "attention.html")
    if output:
        texts = _describe(sentence, note)
        page = attention_html(sentence, view, texts, views)
        if output == "-":
            print(page.removesuffix("\n"))
        else:
            _write(output, page)


def _read_attention():
    # Not at the top: TensorFlow takes seconds to load.
    from export.attention_views.reader import AttentionReader
    from export.attention_views.word_attention import SentenceAttention

    is_figure = FLAGS.figure is not None
    text = FIGURE_SENTENCES[int(FLAGS.figure)] if is_figure else FLAGS.text
    reader = AttentionReader.from_directory(FLAGS.model)
    translations = None if FLAGS.translation is None else [FLAGS.translation]
    return SentenceAttention(reader.read([text], translations)[0])


def _describe(sentence, note):
    """Returns the texts of the page; see `attention_html`."""
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
    is_given = FLAGS.translation is not None
    return {
        "about": f"{name}: encoder layers: {sentence.layers['encoder']}, "
        f"decoder layers: {sentence.layers['decoder']}, heads: "
        f"{sentence.heads}",
        "translation_term": "Translation, given" if is_given else "Translation",
        "note": " ".join(notes),
    }


def _write(path, text):
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    size = pathlib.Path(path).stat().st_size
    print(f"Wrote {path} ({size:,} bytes).", file=sys.stderr)


if __name__ == "__main__":
    command.run(main, may_be_empty=("text", "translation"))
