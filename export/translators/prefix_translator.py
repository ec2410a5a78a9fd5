"""Translates where the beginnings of translations are given."""

from export.lines.prefixes import UnknownCharacter
from export.translators.id_translator import one_graph
from export.translators.text_ids import padded
from export.translators.translator import IDS_SPEC, Translator
from keras_transformer.special_ids import UNKNOWN_ID


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
            UnknownCharacter: a prefix has one.
            ValueError: n is not between 1 and `beam_size`; there are more of
                texts or of prefixes.
        """
        sentences = [
            sentence._replace(prefix=ids)
            for sentence, (ids, _) in zip(
                self._sentences(list(texts)),
                self._begun(list(prefixes)),
                strict=True,
            )
        ]
        return self._n_best(sentences, n, self._search_texts_after, on_progress)

    def as_spelt(self, prefixes):
        """Returns prefixes as translations begin with them: a list of str.

        The vocabulary spells some characters otherwise ("ﬁ" as "fi"), has one
        space where there are several, and none at the ends. One that is longer
        than a translation may be is returned as it is.

        Args:
            prefixes: list of str.

        Raises:
            UnknownCharacter: a prefix has one.
        """
        if not prefixes:
            return []
        begun = self._begun(prefixes)
        spelt = self.tokenizer.decode(padded([ids for ids, _ in begun]))
        return [
            prefix if is_cut else text
            for prefix, text, (_, is_cut) in zip(prefixes, spelt, begun)
        ]

    def _begun(self, prefixes):
        """Returns a list of pairs: ids without the end id, and if cut."""
        begun = self._beginnings(prefixes, self._target_limit())
        for place, (ids, _) in enumerate(begun):
            if UNKNOWN_ID in ids:
                character = _first_unknown(self.tokenizer, prefixes[place])
                raise UnknownCharacter(place, character)
        return [(ids[:-1], is_cut) for ids, is_cut in begun]

    def _search_texts_after(self, sentences, n):
        source = padded([sentence.ids for sentence in sentences])
        prefix = padded([sentence.prefix for sentence in sentences])
        search = self._best_after if n == 1 else self._search_after
        return self._texts(*search(source, self._encode(source), prefix), n)


def _first_unknown(tokenizer, text):
    """Returns the character from which on no beginning of `text` is known."""
    # One by one some are unknown that are known together, such as the parts
    # of a Korean syllable.
    beginnings = [text[:end] for end in range(1, len(text) + 1)]
    known = [UNKNOWN_ID not in ids for ids in tokenizer.encode(beginnings)]
    last = max((end for end, each in enumerate(known, 1) if each), default=0)
    return text[last]
