"""Renders the attention of a model as an HTML page or an SVG picture.

`python -m export.attention --model M --text "..." --output page.html`

The page is one file that works offline: tokens in two columns, joined by lines
in one color for each head, as in Figures 3 to 5 of the paper, and the matrix
of attention weights. The flags select the layer and heads rendered first.
"""

import pathlib
import sys
from collections.abc import Sequence

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
from export.common.storage import write_bytes
from export.translators import search_flags

FLAGS = flags.FLAGS

flags.DEFINE_string("model", None, "Model directory.", required=True)
flags.DEFINE_string("text", None, "Sentence to translate.")
flags.DEFINE_string(
    "translation",
    None,
    "Translation to force-decode; by default the result of the beam search.",
)
flags.DEFINE_enum(
    "figure",
    None,
    ["3", "4", "5"],
    "Figure of the paper whose English sentence, layer and heads to use.",
)
flags.DEFINE_string(
    "output",
    None,
    "HTML file, - for standard output; by default attention.html, or no page "
    "with --svg.",
)
flags.DEFINE_string("svg", None, "SVG file.")
flags.DEFINE_enum(
    "kind",
    None,
    ["encoder", "decoder", "cross"],
    "Self-attention of encoder or decoder, or cross-attention, the default.",
)
flags.DEFINE_integer(
    "layer",
    None,
    "Number of the layer, from 1; by default at five sixths of the depth.",
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
    "Render only the lines of this query: the first such word, or #4 for the "
    "fourth query if no word is #4 itself.",
)

search_flags.define_languages()

_VIEW_FLAGS = ("kind", "layer", "heads", "unit", "word")


def main(arguments: list[str]) -> None:
    """Writes the page, the picture, or both."""
    del arguments
    if (FLAGS.text is None) == (FLAGS.figure is None):
        raise InputError("Give either --text or --figure.")
    attention = _read_attention()
    views: Sequence[tuple[str, AttentionView]]
    if FLAGS.figure:
        views, note = paper_figure(int(FLAGS.figure), attention)
        view = views[0][1]
    else:
        views, note = (), ""
        layer = paper_layer(attention.num_layers["cross"])
        view = AttentionView("cross", layer, tuple(range(attention.num_heads)))
    changes = {name: FLAGS[name].value for name in _VIEW_FLAGS}
    view = update_view(view, attention, **changes)
    if FLAGS.svg:
        _write(FLAGS.svg, attention_svg(attention, view))
    output = FLAGS.output or ("" if FLAGS.svg else "attention.html")
    if output:
        texts = _page_texts(attention, note)
        page = attention_html(attention, view, texts, views)
        if output == "-":
            print(page.removesuffix("\n"))
        else:
            _write(output, page)


def _read_attention():
    # Not at the top: TensorFlow takes seconds to load.
    from export.attention_views.reader import AttentionReader
    from export.attention_views.word_attention import SentenceAttention
    from export.loading import load_translator

    text = FIGURE_SENTENCES[int(FLAGS.figure)] if FLAGS.figure else FLAGS.text
    translations = None if FLAGS.translation is None else [FLAGS.translation]
    translator = load_translator(
        FLAGS.model, **search_flags.read_given_flags(search_flags.LANGUAGES)
    )
    reader = AttentionReader(translator)
    return SentenceAttention(reader.read([text], translations)[0])


def _page_texts(attention, note):
    """Returns the texts for `attention_html`."""
    notes = [note] if note else []
    for side, is_truncated in (
        ("text", attention.maps.source_truncated),
        ("translation", attention.maps.target_truncated),
    ):
        if is_truncated:
            notes.append(
                f"The {side} is truncated to the maximum length of the model."
            )
    name = pathlib.Path(FLAGS.model).resolve().name
    layers = attention.num_layers
    side = "Translation" if FLAGS.translation is None else "Given translation"
    return {
        "about": f"{name}: encoder layers: {layers['encoder']}, decoder "
        f"layers: {layers['decoder']}, heads: {attention.num_heads}",
        "translation_term": side,
        "note": " ".join(notes),
    }


def _write(path, text):
    write_bytes(path, text.encode("utf-8"))
    size = pathlib.Path(path).stat().st_size
    print(f"Wrote {path} ({size:,} bytes).", file=sys.stderr)


if __name__ == "__main__":
    command.run(main, may_be_empty=("text", "translation"))
