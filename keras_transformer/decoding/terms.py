"""Terms that translations must contain: lexically constrained beam search.

Beams are divided among banks by the number of term tokens that they have, after
Post and Vilar 2018 (arXiv 1804.06609). A term counts when all its tokens follow
each other and form whole words. Every position at which a term may have begun
is followed, so terms may overlap, or be given up and begun again.

Letters: B sentences, K beams, N candidates, V vocabulary; C terms of a
sentence, A alternatives of a term, L tokens of an alternative.
"""

import typing

from keras import ops, tree

from keras_transformer.config import PAD_ID
from keras_transformer.decoding.search_config import IMPOSSIBLE, LEAST_POSSIBLE

# Above every number of tokens.
_MANY = 1 << 24


class TermPatterns(typing.NamedTuple):
    """The terms of each sentence, from `prepare_terms`."""

    tokens: typing.Any  # int32 [B, C, A, L], -1 for padding
    tokens_left: typing.Any  # int32 [B, C, A, L], number of tokens after each
    is_within_word: typing.Any  # boolean [B, C, A, L], continues a word
    is_attached: typing.Any  # boolean [B, C, A], begins without a space
    ends_word: typing.Any  # boolean [B, C, A], ends with the end of a word
    least_tokens: typing.Any  # int32 [B, C], tokens of the shortest alternative


class TermState(typing.NamedTuple):
    """What a hypothesis has of its terms; [B] first, then [B, K]."""

    matched: typing.Any  # boolean [B, C, A, L], whether it ends with tokens 0-l
    is_met: typing.Any  # boolean [B, C]
    may_attach: typing.Any  # boolean [B], whether a word follows without space


def prepare_terms(terms, edges):
    """Returns TermPatterns for int32 [B, C, A, L], and the first TermState.

    See `Constraints.terms`.
    """
    tokens = ops.cast(terms, "int32")
    is_token = tokens != PAD_ID
    lengths = ops.sum(ops.cast(is_token, "int32"), axis=-1)  # [B, C, A]
    left = lengths[..., None] - 1 - ops.arange(ops.shape(tokens)[-1])
    last = ops.sum(ops.where(left == 0, tokens, 0), axis=-1)
    is_within_word = ops.take(edges.joins_previous, tokens, axis=0)
    is_attached = is_within_word[..., 0]
    begins_word = (lengths > 0) & ~is_attached
    least = ops.min(ops.where(begins_word, lengths, _MANY), axis=-1)
    least = ops.minimum(least, ops.max(lengths, axis=-1) + 1)
    is_term = ops.any(lengths > 0, axis=-1)
    patterns = TermPatterns(
        tokens=ops.where(is_token, tokens, -1),
        tokens_left=left,
        is_within_word=is_within_word,
        is_attached=is_attached,
        ends_word=ops.take(edges.joins_next, last, axis=0),
        least_tokens=ops.where(is_term, least, 0),
    )
    state = TermState(
        matched=ops.zeros_like(is_token),
        is_met=~is_term,
        may_attach=ops.zeros_like(is_term[:, 0]),
    )
    return patterns, state


class TermBeams:
    """The beams of one step, and the terms that they lack.

    Args:
        edges: WordEdges.
        patterns: TermPatterns.
        state: TermState of each beam, [B, K].
        tokens_left: int32 [B], number of tokens after those of this step, the
            end id included.
    """

    def __init__(self, edges, patterns, state, tokens_left):
        self._edges, self._state = edges, state
        self._patterns, self._tokens_left = patterns, tokens_left

    def add_tokens(self, logits, top_logits, top_tokens):
        """Appends tokens that terms need to the best of each beam, [B, K, N].

        These are the next token of each alternative and, as a term ends with
        its word, a token that begins the next one. Tokens that a beam has twice
        get an impossible logit.
        """
        patterns, state = _insert_axis(self._patterns), self._state
        length = ops.shape(patterns.tokens)[-1]
        numbers = ops.arange(1, length + 1)
        progress = ops.max(ops.where(state.matched, numbers, 0), axis=-1)
        is_next = ops.arange(length) == progress[..., None]
        tokens = ops.max(ops.where(is_next, patterns.tokens, -1), axis=-1)
        begins = patterns.is_attached & ~state.may_attach[..., None, None]
        is_useful = ~state.is_met[..., None] & ~(begins & (progress == 0))
        tokens = ops.where(is_useful, tokens, -1)
        batch, beams, *_ = ops.shape(tokens)
        added = [top_tokens, ops.reshape(tokens, (batch, beams, -1))]
        ids = self._edges.next_word_ids
        if len(ids):
            best = ops.argmax(ops.take(logits, ids, axis=-1), axis=-1)
            added.append(ops.take(ids.astype("int32"), best)[..., None])
        tokens = ops.concatenate(added, axis=-1)
        count, known = ops.shape(tokens)[-1], ops.shape(top_tokens)[-1]
        is_earlier = ops.arange(count) < ops.arange(known, count)[:, None]
        is_equal = tokens[:, :, None] == tokens[:, :, known:, None]
        is_repeated = ops.any(is_equal & is_earlier, axis=-1)
        new = tokens[:, :, known:]
        new_logits = ops.take_along_axis(logits, ops.maximum(new, 0), axis=-1)
        new_logits = ops.where((new < 0) | is_repeated, IMPOSSIBLE, new_logits)
        all_logits = ops.concatenate([top_logits, new_logits], axis=-1)
        return all_logits, ops.maximum(tokens, 0)

    def may_end(self):
        """Returns whether each beam has all its terms: boolean [B, K]."""
        return self._count_at_edge() == 0

    def count_missing(self, tokens):
        """Returns a number of tokens that suffices after tokens [B, K, N].

        One term can be continued; the rest must begin, one after the other.
        """
        patterns, state = _insert_axis(self._patterns), self._state
        within_word = ops.take(self._edges.joins_previous, tokens, axis=0)
        least = patterns.least_tokens
        missing = ops.sum(ops.where(state.is_met, 0, least), axis=-1)
        missing = ops.where(
            within_word, missing[..., None], self._count_at_edge()[..., None]
        )
        # What each token of a term saves where it continues the term.
        is_met = ops.where(
            patterns.is_within_word,
            state.is_met[..., None, None],
            self._is_met_at_edge()[..., None, None],
        )
        saved = least[..., None, None] - patterns.tokens_left
        saved = ops.where(_may_match(patterns, state) & ~is_met, saved, 0)
        batch, beams, *_ = ops.shape(saved)
        saved = ops.reshape(saved, (batch, beams, 1, -1))
        terms = ops.reshape(patterns.tokens, (batch, 1, 1, -1))
        saved = ops.where(terms == tokens[..., None], saved, 0)
        return missing - ops.max(saved, axis=-1)

    def _count_at_edge(self):
        """Returns `count_missing` of a token that begins a new word: [B, K]."""
        least = self._patterns.least_tokens[:, None]
        return ops.sum(ops.where(self._is_met_at_edge(), 0, least), axis=-1)

    def _is_met_at_edge(self):
        complete = _is_complete(_insert_axis(self._patterns), self._state)
        return self._state.is_met | ops.any(complete, axis=-1)

    def select(self, log_probs, missing, count):
        """Returns the indices of `count` of N candidates: int32 [B, count].

        Takes the best of each bank, then the second best, and so on. Candidates
        that may lack the length for their terms are last. The result is in the
        order of the log-probabilities, the highest first.
        """
        size = ops.shape(log_probs)[1]
        log_probs, order = ops.top_k(log_probs, size)
        missing = ops.take_along_axis(missing, order, axis=1)
        _, terms, _, length = ops.shape(self._patterns.tokens)
        num_banks = terms * length + 1
        in_bank = missing[..., None] == ops.arange(num_banks)  # [B, N, banks]
        ranks = ops.cumsum(ops.cast(in_bank, "int32"), axis=1)
        ranks = ops.sum(ops.where(in_bank, ranks, 0), axis=-1)
        is_late = missing + 1 > self._tokens_left[:, None]
        is_late |= log_probs <= LEAST_POSSIBLE
        key = ranks * num_banks + missing
        key = ops.where(is_late, key + _MANY, key)
        _, places = ops.top_k(-key, count)
        places = ops.sort(places, axis=-1)
        return ops.take_along_axis(order, places, axis=1)


def advance_terms(edges, patterns, state, tokens):
    """Returns the TermState after int32 [B, K] tokens."""
    patterns = _insert_axis(patterns)
    begins_word = ~ops.take(edges.joins_previous, tokens, axis=0)
    was_complete = _is_complete(patterns, state)  # [B, K, C, A]
    is_equal = patterns.tokens == tokens[..., None, None, None]
    matched = _may_match(patterns, state) & is_equal
    state = state._replace(
        matched=matched,
        may_attach=ops.take(edges.precedes_word, tokens, axis=0),
    )
    is_met = was_complete & begins_word[..., None, None]
    is_met |= _is_complete(patterns, state) & ~patterns.ends_word
    return state._replace(is_met=state.is_met | ops.any(is_met, axis=-1))


def _may_match(patterns, state):
    """Returns whether each token would continue a term: [B, K, C, A, L]."""
    begins = state.may_attach[..., None, None] | ~patterns.is_attached
    return ops.concatenate(
        [begins[..., None], state.matched[..., :-1]], axis=-1
    )


def _is_complete(patterns, state):
    """Returns whether all tokens were just generated: [B, K, C, A]."""
    return ops.any(state.matched & (patterns.tokens_left == 0), axis=-1)


def _insert_axis(patterns):
    """Returns the patterns with a second axis of size 1."""
    return tree.map_structure(lambda each: each[:, None], patterns)
