"""Translates where the beginnings of translations are given."""

from export.id_pair import padded
from export.one_graph import one_graph
from export.translator import IDS_SPEC, Translator


class PrefixTranslator(Translator):
    """A Translator that also finds the best of some translations alone.

    Args:
        *model: of Translator: model and tokenizer.
        **settings: of Translator.
    """

    def __init__(self, *model, **settings):
        super().__init__(*model, **settings)
        inputs = IDS_SPEC, self._ids.memory_spec, IDS_SPEC
        self._best_after = one_graph(self._ids.best_after, *inputs)
        self._search_after = one_graph(self._ids.search_after, *inputs)

    def n_best_after(self, texts, prefixes, n, on_progress=None):
        """Finds the n best translations that begin with what is given.

        Args:
            texts: list of str, a sentence each.
            prefixes: list of str, as many: what its translations begin with,
                "" for nothing. The last word may go on. A translation that
                may not be so long ends on the way.
            n: as for `n_best`.
            on_progress: as for `translate`.

        Returns:
            As `n_best`; the prefixes' probabilities count in the scores, and
            blank text has a blank translation all the same.

        Raises:
            ValueError: n is not between 1 and `beam_size`; there are more of
                texts or of prefixes.
        """
        begun = self._beginnings(list(prefixes), self._target_limit())
        sentences = [
            # Without the end id.
            sentence._replace(prefix=ids[:-1])
            for sentence, (ids, _) in zip(
                self._sentences(list(texts)), begun, strict=True
            )
        ]
        return self._n_best(sentences, n, self._search_texts_after, on_progress)

    def _search_texts_after(self, sentences, n):
        source = padded([sentence.ids for sentence in sentences])
        prefix = padded([sentence.prefix for sentence in sentences])
        search = self._best_after if n == 1 else self._search_after
        return self._texts(*search(source, self._encode(source), prefix), n)
