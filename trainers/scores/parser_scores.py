"""Scores a parser on a split and saves the scores in scores.json."""

import tensorflow as tf

from export.common.progress_bar import ProgressBar
from export.parsing.linearization import delinearize
from export.parsing.parser import Parser, load_symbols
from export.parsing.trees import tree_words
from export.parsing.word_tokenizer import WordTokenizer
from export.translators.batches import (
    BATCH_TOKENS,
    pad_ids,
    translate_in_batches,
)
from export.translators.graph_translator import GraphTranslator
from keras_transformer.config import END_ID
from trainers.scores.brackets import score_brackets
from trainers.scores.score_records import save_scores

_IDS = tf.TensorSpec([None, None], tf.int32)


def score_parser(
    directory,
    gold,
    data,
    provenance,
    search=None,
    batch_tokens=BATCH_TOKENS,
    unconstrained=False,
):
    """Parses the sentences of gold trees, scores them and saves the scores.

    Returns the best trees as texts, and the lines to print. `gold` is a list of
    normalized nltk.Tree; `data` and `provenance` are those of `save_scores`.
    `search` has other values of beam_size and alpha. `unconstrained` also
    searches without the grammar, and counts the outputs that are not trees.
    """
    search = search or {}
    parser = Parser.from_directory(
        directory.path, batch_tokens=batch_tokens, **search
    )
    sentences = [tree_words(tree) for tree in gold]
    print(
        f"Parsing {len(gold):,} sentences, beam {parser.beam_size}.", flush=True
    )
    with ProgressBar("Parsing", len(gold), "sentences") as bar:
        texts = [" ".join(sentence) for sentence in sentences]
        parses = parser.parse(texts, on_progress=bar.update)
    best = [each[0] for each in parses]
    scores = score_brackets([each.tree for each in best], gold)
    record, lines = scores.record() | {"sentences": len(gold)}, scores.lines
    if unconstrained:
        translator = GraphTranslator(parser.model, **search)
        broken = count_broken(translator, directory, sentences, batch_tokens)
        record["broken_without_grammar"] = broken
        lines.append(
            f"Without the grammar {broken:,} of {len(gold):,} answers "
            f"({broken / len(gold):.1%}) are no tree over exactly the words."
        )
    config = directory.read_config().replace(**search)
    save_scores(directory, parser.model, record, config, data, provenance)
    return [each.text for each in best], lines


def count_broken(translator, directory, sentences, batch_tokens=BATCH_TOKENS):
    """Counts outputs that are not a tree over exactly a sentence's words.

    The translator is a GraphTranslator without a grammar.
    """
    symbols = load_symbols(directory)
    tokenizer = WordTokenizer(directory.read_vocabulary())
    sources = tokenizer.encode([" ".join(each) for each in sentences])
    search = tf.function(
        translator.search, input_signature=[_IDS], autograph=False
    )

    def count_batch(batch):
        tokens = search(pad_ids([sources[number] for number in batch])).tokens
        return [
            _is_broken(row, symbols, sentences[number])
            for row, number in zip(tokens[:, 0].numpy().tolist(), batch)
        ]

    print("Parsing again without the grammar.", flush=True)
    with ProgressBar("Parsing", len(sentences), "sentences") as bar:
        lengths = list(map(len, sources))
        return sum(
            translate_in_batches(lengths, batch_tokens, count_batch, bar.update)
        )


def _is_broken(row, symbols, sentence):
    try:
        # A row without the end id raises ValueError, too.
        delinearize(symbols.decode(row[: row.index(END_ID)]), sentence)
    except ValueError:
        return True
    return False
