"""Terms that translations must contain: lexically constrained beam search.

Beams are divided among banks by the number of term tokens that they have, after
Post and Vilar 2018 (arXiv 1804.06609). A term counts when all its tokens follow
each other and form whole words. Every position at which a term may have begun
is followed, so terms may overlap, or be given up and begun again. Copied terms
count as one token, so that the model decides where they begin, and are not
given up.

Letters: B sentences, K beams, N candidates, V vocabulary; C terms of a
sentence, A alternatives of a term, L tokens of an alternative.
"""

import typing

from keras import ops, tree

from keras_transformer.config import PAD_ID
from keras_transformer.decoding.search_config import (
    IMPOSSIBLE,
    LEAST_POSSIBLE,
    Constraints,
    WordEdges,
    is_unset,
)
from keras_transformer.ids import arange
from keras_transformer.types import Tensor

# Above every number of tokens.
_MANY = 1 << 24


class TermPatterns(typing.NamedTuple):
    """The terms of each sentence, the same for all beams: [B, 1, ...]."""

    tokens: Tensor  # int32 [B, 1, C, A, L], -1 for padding
    tokens_left: Tensor  # int32 [B, 1, C, A, L], number of tokens after each
    is_within_word: Tensor  # boolean [B, 1, C, A, L], continues a word
    is_attached: Tensor  # boolean [B, 1, C, A], begins without a space
    ends_word: Tensor  # boolean [B, 1, C, A], ends with the end of a word
    least_tokens: Tensor  # int32 [B, 1, C], tokens of the shortest alternative
    is_copied: Tensor  # boolean [B, 1, C]


class TermState(typing.NamedTuple):
    """What a hypothesis has of its terms; [B] first, then [B, K]."""

    matched: Tensor  # boolean [B, C, A, L], whether it ends with tokens 0-l
    is_met: Tensor  # boolean [B, C]
    is_pending: Tensor  # boolean [B, C], met unless a word follows
    may_attach: Tensor  # boolean [B], whether a word follows without space


def prepare_terms(
    constraints: Constraints, edges: WordEdges
) -> tuple[TermPatterns, TermState]:
    """Returns TermPatterns for Constraints, and the first TermState."""
    tokens = constraints.terms
    is_token = tokens != PAD_ID
    lengths = ops.sum(ops.cast(is_token, "int32"), axis=-1)  # [B, C, A]
    left = lengths[..., None] - 1 - arange(ops.shape(tokens)[-1])
    last = ops.sum(ops.where(left == 0, tokens, 0), axis=-1)
    is_within_word = ops.take(edges.joins_previous, tokens, axis=0)
    is_attached = is_within_word[..., 0]
    begins_word = (lengths > 0) & ~is_attached
    least = ops.min(ops.where(begins_word, lengths, _MANY), axis=-1)
    least = ops.minimum(least, ops.max(lengths, axis=-1) + 1)
    is_term = ops.any(lengths > 0, axis=-1)
    is_copied = constraints.copied_terms
    if is_unset(is_copied):
        is_copied = ops.zeros_like(is_term)
    patterns = TermPatterns(
        tokens=ops.where(is_token, tokens, -1),
        tokens_left=left,
        is_within_word=is_within_word,
        is_attached=is_attached,
        ends_word=ops.take(edges.joins_next, last, axis=0),
        least_tokens=ops.where(is_term, least, 0),
        is_copied=is_copied,
    )
    state = TermState(
        matched=ops.zeros_like(is_token),
        is_met=~is_term,
        is_pending=ops.zeros_like(is_term),
        may_attach=ops.zeros_like(is_term[:, 0]),
    )
    return tree.map_structure(lambda each: each[:, None], patterns), state


class TermBeams:
    """The beams of one step, and the terms that they lack.

    Args:
        edges: WordEdges.
        patterns: TermPatterns.
        state: TermState of each beam, [B, K].
        tokens_left: int32 [B], number of tokens after those of this step, the
            end id included.
    """

    def __init__(
        self,
        edges: WordEdges,
        patterns: TermPatterns,
        state: TermState,
        tokens_left: Tensor,
    ):
        self._edges, self._state = edges, state
        self._patterns, self._tokens_left = patterns, tokens_left

    def add_tokens(
        self, logits: Tensor, top_logits: Tensor, top_tokens: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Appends tokens that terms need to the best of each beam, [B, K, N].

        These are the next token of each alternative and, as a term ends with
        its word, a token that begins the next one. Tokens that a beam has twice
        get an impossible logit.
        """
        patterns, state = self._patterns, self._state
        length = ops.shape(patterns.tokens)[-1]
        numbers = arange(1, length + 1)
        progress = ops.max(ops.where(state.matched, numbers, 0), axis=-1)
        is_next = arange(length) == progress[..., None]
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
        is_earlier = arange(count) < arange(known, count)[:, None]
        is_equal = tokens[:, :, None] == tokens[:, :, known:, None]
        is_repeated = ops.any(is_equal & is_earlier, axis=-1)
        new = tokens[:, :, known:]
        new_logits = ops.take_along_axis(logits, ops.maximum(new, 0), axis=-1)
        new_logits = ops.where((new < 0) | is_repeated, IMPOSSIBLE, new_logits)
        all_logits = ops.concatenate([top_logits, new_logits], axis=-1)
        return all_logits, ops.maximum(tokens, 0)

    def may_end(self) -> Tensor:
        """Returns whether each beam has all its terms: boolean [B, K]."""
        return ops.all(self._is_met_at_edge(), axis=-1)

    def select(
        self, log_probs: Tensor, tokens: Tensor, count: int
    ) -> tuple[Tensor, Tensor]:
        """Selects candidates, tokens [B, K, N] with log-probs [B, K * N].

        Takes the best of each bank, then the second best, and so on; if all
        terms are copied, the best of the fullest bank, then the likeliest.
        Those that give up a copied term are taken later, and last those that
        may lack the length for their terms. Returns indices, int32 [B, count],
        in the order of the log-probabilities, the highest first; and a number
        of tokens that suffices after each candidate, int32 [B, K * N].
        """
        patterns, state = self._patterns, self._state
        least, is_copied = patterns.least_tokens, patterns.is_copied
        within_word = ops.take(self._edges.joins_previous, tokens, axis=0)
        met_at_edge = self._is_met_at_edge()
        # One term can be continued; the rest must begin, one after the other.
        is_met = ops.where(
            patterns.is_within_word,
            state.is_met[..., None, None],
            met_at_edge[..., None, None],
        )
        may_continue = _may_match(patterns, state) & ~is_met
        saved = least[..., None, None] - patterns.tokens_left

        def count_missing(cost, saved):
            within, at_edge = (
                ops.sum(ops.where(each, 0, cost), axis=-1)[..., None]
                for each in (state.is_met, met_at_edge)
            )
            missing = ops.where(within_word, within, at_edge)
            missing -= self._best(may_continue, saved, tokens)
            return ops.reshape(missing, ops.shape(log_probs))

        def rank_copies():
            # A copied term counts as one token, of which its first are part.
            bank = count_missing(
                ops.where(is_copied, ops.minimum(least, 1), least),
                ops.where(is_copied[..., None, None], 1, saved),
            )
            gives_up = self._gives_up(tokens)
            return bank, ops.reshape(gives_up, ops.shape(log_probs))

        missing = count_missing(least, saved)
        bank, gives_up = ops.cond(
            ops.any(is_copied),
            rank_copies,
            lambda: (missing, ops.zeros_like(missing, dtype="bool")),
        )
        return self._select(log_probs, missing, bank, gives_up, count), missing

    def _select(self, log_probs, missing, bank, gives_up, count):
        size = ops.shape(log_probs)[1]
        log_probs, order = ops.top_k(log_probs, size)
        is_late = missing + 1 > self._tokens_left[:, None]
        bank, gives_up, is_late = (
            ops.take_along_axis(each, order, axis=1)
            for each in (bank, gives_up, is_late)
        )
        is_late |= log_probs <= LEAST_POSSIBLE
        _, _, terms, _, length = ops.shape(self._patterns.tokens)
        num_banks = terms * length + 1
        # The place of each candidate in its bank, from 1: [B, N].
        is_before = arange(size)[:, None] >= arange(size)
        is_ahead = (bank[:, :, None] == bank[:, None]) & is_before
        ranks = ops.sum(ops.cast(is_ahead, "int32"), axis=-1)
        key = ranks * num_banks + bank
        # Copied terms alone: the likeliest, and one with as many as possible.
        fits = ops.where(gives_up | is_late, num_banks, bank)
        is_fullest = (ranks == 1) & (
            bank == ops.min(fits, axis=1, keepdims=True)
        )
        likeliest = ops.where(is_fullest, 0, 1 + arange(size))
        is_copied = self._patterns.is_copied | (
            self._patterns.least_tokens == 0
        )
        are_copied = ops.all(is_copied, axis=-1)
        key = ops.where(are_copied, likeliest, key)
        key = ops.where(gives_up, key + _MANY, key)
        key = ops.where(is_late, key + 2 * _MANY, key)
        _, places = ops.top_k(-key, count)
        places = ops.sort(places, axis=-1)
        return ops.take_along_axis(order, places, axis=1)

    def _best(self, may_continue, values, tokens):
        """Returns the best value of what tokens continue, or 0: [B, K, N]."""
        batch, beams, _ = ops.shape(tokens)
        values = ops.where(may_continue, values, 0)
        values = ops.reshape(values, (batch, beams, 1, -1))
        terms = ops.reshape(self._patterns.tokens, (batch, 1, 1, -1))
        values = ops.where(terms == tokens[..., None], values, 0)
        return ops.max(values, axis=-1)

    def _gives_up(self, tokens):
        """Returns whether tokens break off a copied term: boolean [B, K, N].

        A single token of it may be the beginning of something else.
        """
        patterns, state = self._patterns, self._state
        within_word = ops.take(self._edges.joins_copies, tokens, axis=0)
        is_last = patterns.tokens_left == 0
        is_open = (patterns.is_copied & ~state.is_met)[..., None, None]
        is_open &= state.matched
        ends = is_open & is_last & patterns.ends_word[..., None]
        is_open &= ~is_last & (arange(ops.shape(is_last)[-1]) > 0)
        may_end, may_go_on = (
            ops.any(each, axis=(2, 3, 4))[..., None] for each in (ends, is_open)
        )
        may_end |= ops.any(state.is_pending, axis=-1)[..., None]
        continuing = _shift(is_open, ops.zeros_like(is_open[..., 0]))
        is_broken = ops.where(
            within_word, may_end | may_go_on, may_go_on & ~may_end
        )
        return is_broken & (self._best(continuing, 1, tokens) == 0)

    def _is_met_at_edge(self):
        complete = _is_complete(self._patterns, self._state)
        state = self._state
        return state.is_met | state.is_pending | ops.any(complete, axis=-1)


def advance_terms(
    edges: WordEdges, patterns: TermPatterns, state: TermState, tokens: Tensor
) -> TermState:
    """Returns the TermState after int32 [B, K] tokens."""
    joins, connects = (
        ops.take(each, tokens, axis=0)[..., None]
        for each in (edges.joins_previous, edges.connects)
    )
    was_complete = ops.any(_is_complete(patterns, state), axis=-1)
    was_complete |= state.is_pending  # [B, K, C]
    is_equal = patterns.tokens == tokens[..., None, None, None]
    matched = _may_match(patterns, state) & is_equal
    is_pending = was_complete & patterns.is_copied & connects
    is_met = state.is_met | (was_complete & ~joins & ~is_pending)
    state = state._replace(
        matched=matched,
        is_pending=is_pending & ~is_met,
        may_attach=ops.take(edges.precedes_word, tokens, axis=0),
    )
    is_complete = _is_complete(patterns, state) & ~patterns.ends_word
    return state._replace(is_met=is_met | ops.any(is_complete, axis=-1))


def _may_match(patterns, state):
    """Returns whether each token would continue a term: [B, K, C, A, L]."""
    begins = state.may_attach[..., None, None] | ~patterns.is_attached
    return _shift(state.matched, begins)


def _shift(matched, first):
    """Returns [..., L] for the tokens after those that are matched."""
    return ops.concatenate([first[..., None], matched[..., :-1]], axis=-1)


def _is_complete(patterns, state):
    """Returns whether all tokens were just generated: [B, K, C, A]."""
    return ops.any(state.matched & (patterns.tokens_left == 0), axis=-1)
