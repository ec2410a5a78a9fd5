"""The whole beam search as one loop of an ONNX graph: section 6.1.

It is the search of `keras_transformer.beam_search`, whose names it uses. A
sentence that has stopped leaves the batch. Letters: B sentences, b of them are
running, S source length, K beams, R = b * K rows, T steps so far, V vocabulary.
"""

from collections.abc import Mapping

import numpy as np

from export.onnx.graph import FLOAT, INT64, Value
from export.onnx.transformer_graph import TransformerGraph
from keras_transformer.config import (
    BEGIN_ID,
    END_ID,
    FORBIDDEN_IDS,
    PAD_ID,
    TransformerConfig,
)
from keras_transformer.decoding.candidates import Candidates
from keras_transformer.decoding.search_config import IMPOSSIBLE, LEAST_POSSIBLE


class SearchGraph:
    """Adds the beam search of an input's sentences to a graph.

    Args:
        transformer: TransformerGraph.
        config: TransformerConfig with the settings of the search.
        source: int64 [B, S] ids.
        num_given: 1 if the first id of a source is the language of the target,
            see `TargetLanguageModel`; or 0.
        align: whether to return alignments.
    """

    def __init__(
        self,
        transformer: TransformerGraph,
        config: TransformerConfig,
        source: Value,
        num_given: int,
        align: bool,
    ):
        self._transformer, self._graph = transformer, transformer.graph
        self._config, self._align = config, align
        self._num_given = num_given
        self._limits = self._find_limits(source)
        self._language = source[:, :1]
        self._source = source = source[:, num_given:]
        self._numbers = self._graph.op("Range", 0, source.size(0)[0], 1)
        mask = transformer.mask_padding(source)
        states = transformer.encode(source, mask)
        memory = transformer.project_memory(states, source.size(1))
        infos = [
            (FLOAT, ["b", config.num_heads, "source", width])
            for width in (config.d_k, config.d_v)
        ]
        # Of running sentences: the cross-attention's keys and values, and mask.
        self._memory = {"mask": (mask, (FLOAT, ["b", 1, 1, "source"]))} | {
            f"memory_{name}_{index}": (value, info)
            for index, layer in enumerate(memory)
            for name, value, info in zip(("keys", "values"), layer, infos)
        }

    def search(self) -> dict[str, Value]:
        """Returns `tokens`, int64 [B, K, T], and `scores`, float [B, K].

        With `align` also `alignment`, float [B, K, T, S], and
        `token_log_probs`, float [B, K, T].
        """
        graph, beams = self._graph, self._config.beam_size
        batch = self._source.size(0)
        others = np.full((1, beams), IMPOSSIBLE, np.float32)
        others[0, 0] = 0.0
        log_probs = graph.full(0.0, batch, beams) + others
        scores = graph.full(IMPOSSIBLE, batch, beams)
        states = {
            # Numbers of the running sentences.
            "running": (self._numbers, (INT64, ["b"])),
            "live_log_probs": (log_probs, (FLOAT, ["b", beams])),
            "finished_scores": (scores, (FLOAT, ["B", beams])),
            **self._memory,
            **self._first_caches(),
        }
        # What has a column for each step, or several, [B, K, columns]; here
        # those of the begin id.
        self._width = self._source.size(1)
        zero = graph.full(0, batch, beams, 1)
        self._blank_columns = {"tokens": zero}
        if self._align:
            self._blank_columns |= {
                "token_log_probs": zero.cast(FLOAT),
                "alignment": graph.full(0.0, batch, beams, self._width),
            }
        for name, first in self._blank_columns.items():
            element_type = INT64 if name == "tokens" else FLOAT
            if name == "tokens":
                first += BEGIN_ID
            for kind, size in ("live", "b"), ("finished", "B"):
                info = element_type, [size, beams, None]
                states[f"{kind}_{name}"] = first, info
        self._ends = zero + END_ID
        limit = graph.op("ReduceMax", self._limits, keepdims=0)
        self._penalties = self._penalty(graph.op("Range", 1, limit + 1, 1))
        last = graph.loop(limit, states, self._advance)
        outputs = {"scores": last["finished_scores"]}
        for name in self._blank_columns:
            steps = last[f"finished_{name}"]
            if name == "alignment":
                steps = graph.reshape(steps, 0, 0, -1, self._width)
            # Without the begin id.
            outputs[name] = steps[:, :, 1:]
        if self._align and self._num_given:
            # No token attends to the language.
            alignment = outputs["alignment"]
            first = alignment[:, :, :, :1] * 0.0
            outputs["alignment"] = graph.concat(first, alignment, axis=3)
        return outputs

    def _find_limits(self, source):
        """Returns the maximum length of each sentence's hypotheses: [B]."""
        graph, config = self._graph, self._config
        is_token = (~graph.equal(source, PAD_ID)).cast(INT64)
        lengths = graph.op("ReduceSum", is_token, [1], keepdims=0) - 1
        limits = graph.op("Max", lengths + config.max_extra_tokens, 1)
        limits = graph.where(lengths > 0, limits, 1)
        if config.positions == "learned":
            most = config.max_positions - self._num_given
            limits = graph.op("Min", limits, most)
        return limits

    def _first_caches(self):
        """Returns the keys and values of each layer before the first step."""
        graph, config = self._graph, self._config
        rows = self._source.size(0) * config.beam_size
        states, infos = {}, {}
        for index in range(config.decoder_layers):
            for name, width in ("keys", config.d_k), ("values", config.d_v):
                name = f"{name}_{index}"
                empty = graph.full(0.0, rows, config.num_heads, 0, width)
                states[name] = empty
                infos[name] = FLOAT, ["R", config.num_heads, None, width]
        if self._num_given:
            beams = self._source.size(0), config.beam_size
            begin = graph.full(BEGIN_ID, *beams)
            memory = {name: each for name, (each, _) in self._memory.items()}
            _, _, states = self._decode(begin, 0, states | memory)
        return {name: (states[name], infos[name]) for name in infos}

    def _decode(self, tokens, position, states):
        """Returns the decoder's output, cross-attention, and new caches.

        The output is [R, D] for `tokens`, int64 [B, K].
        """
        caches = {}

        def attend(index, heads):
            queries, *heads = heads
            for name, new in zip(("keys", "values"), heads):
                name = f"{name}_{index}"
                past = states[name]
                caches[name] = self._graph.concat(past, new, axis=2)
            past = caches[f"keys_{index}"], caches[f"values_{index}"]
            return self._transformer.attend(queries, *past, length=1)[0]

        hidden_states, scores = self._transformer.decode(
            tokens,
            self._graph.value(position),
            (1, self._config.beam_size),
            attend,
            [
                (
                    states[f"memory_keys_{index}"],
                    states[f"memory_values_{index}"],
                )
                for index in range(self._config.decoder_layers)
            ],
            states["mask"],
        )
        return hidden_states, scores, caches

    def _advance(
        self, index: Value, states: Mapping[str, Value]
    ) -> tuple[Value, dict[str, Value]]:
        """Runs one step; see `advance_search` of keras_transformer."""
        graph, beams = self._graph, self._config.beam_size
        length, running = index + 1, states["running"]
        limits = graph.op("Gather", self._limits, running)
        last = states["live_tokens"][:, :, -1]
        if self._num_given:
            is_first = graph.equal(index, 0)
            language = graph.op("Gather", self._language, running)
            last = graph.where(is_first, language, last)
        hidden_states, weights, caches = self._decode(
            last, index + self._num_given, states
        )
        logits = self._transformer.logits(hidden_states)
        candidates = self._find_candidates(logits, index, states)
        at_limit = length >= limits
        is_possible = candidates.end_log_probs > LEAST_POSSIBLE
        may_end = is_possible & (candidates.may_end | at_limit[:, None])
        penalty = graph.op("Gather", self._penalties, index)
        end_scores = candidates.end_log_probs / penalty
        end_scores = graph.where(may_end, end_scores, IMPOSSIBLE)
        scores = graph.op("Gather", states["finished_scores"], running)
        scores = graph.concat(scores, end_scores, axis=1)
        scores, order = graph.top_k(scores, [beams])
        best = candidates.log_probs[:, 0]
        stops = self._should_stop(length, penalty, limits, best, scores)
        # Where the sentences that stay are, among the running ones.
        kept = graph.op("NonZero", ~(at_limit | stops))[0]
        count = running.size(0)
        first = self._numbers[:count][:, None]
        parents = candidates.parents + first * beams
        order += first * (2 * beams)
        rows = graph.op("Gather", parents, kept)
        sentences = running[:, None]
        results = {
            "running": graph.op("Gather", running, kept),
            "live_log_probs": graph.op("Gather", candidates.log_probs, kept),
            "finished_scores": graph.op(
                "ScatterND", states["finished_scores"], sentences, scores
            ),
        }
        columns = {"tokens": (candidates.tokens[..., None], self._ends[:count])}
        if self._align:
            columns |= self._trace(weights, candidates, parents, states)
        for name, (new, ended) in columns.items():
            live, finished = states[f"live_{name}"], states[f"finished_{name}"]
            results[f"live_{name}"] = graph.concat(
                self._select_rows(live, rows),
                graph.op("Gather", new, kept),
                axis=2,
            )
            blank = self._blank_columns[name]
            finished = graph.concat(finished, blank, axis=2)
            pool = graph.concat(
                graph.op("Gather", finished, running),
                graph.concat(live, ended, axis=2),
                axis=1,
            )
            results[f"finished_{name}"] = graph.op(
                "ScatterND",
                finished,
                sentences,
                self._select_rows(pool, order),
            )
        rows = graph.reshape(rows, -1)
        for name, cache in caches.items():
            results[name] = graph.op("Gather", cache, rows)
        for name in self._memory:
            results[name] = graph.op("Gather", states[name], kept)
        return kept.size(0)[0] > 0, results

    def _trace(self, weights, candidates, parents, states):
        """Returns the records of each new and of each ended beam."""
        layer, num_heads = self._config.alignment_attention
        attention = weights[layer - 1][:, :num_heads]
        attention = self._graph.op(
            "ReduceMean", attention, axes=[1], keepdims=0
        )  # [b, K, S]
        past = states["live_log_probs"]
        past_of_parents = self._graph.op(
            "Gather", self._graph.reshape(past, -1), parents
        )
        return {
            "alignment": (self._select_rows(attention, parents), attention),
            "token_log_probs": (
                (candidates.log_probs - past_of_parents)[..., None],
                (candidates.end_log_probs - past)[..., None],
            ),
        }

    def _find_candidates(self, logits, index, states):
        """Returns the Candidates for logits [R, V]."""
        graph, config, beams = self._graph, self._config, self._config.beam_size
        size = self._transformer.vocabulary_size
        log_probs = graph.op("LogSoftmax", logits, axis=-1)
        log_probs = graph.reshape(log_probs, -1, beams, size)
        log_probs = self._avoid_repetition(log_probs, states["live_tokens"])
        live = states["live_log_probs"]
        end_log_probs = log_probs[:, :, END_ID] + live
        per_beam = min(2 * beams + len(FORBIDDEN_IDS), size)
        log_probs, tokens = graph.top_k(log_probs, [per_beam])
        bias = np.zeros(size, np.float32)
        bias[[*FORBIDDEN_IDS]] = IMPOSSIBLE
        log_probs += graph.op("Gather", bias, tokens) + live[..., None]
        log_probs = graph.reshape(log_probs, -1, beams * per_beam)
        tokens = graph.reshape(tokens, -1, beams * per_beam)
        is_end = graph.equal(tokens, END_ID)
        continuing = graph.where(is_end, IMPOSSIBLE, log_probs)
        best, order = graph.top_k(continuing, [beams])
        is_exact = config.stop_criterion == "exact"
        end_rank = min(2 * beams if is_exact else beams, beams * per_beam)
        all_best, _ = graph.top_k(log_probs, [end_rank])
        # The minimum length is 2, if the maximum is not 1.
        may_end = (end_log_probs >= all_best[:, -1:]) & (index > 0)
        return Candidates(
            tokens=graph.op("GatherElements", tokens, order, axis=1),
            parents=order / per_beam,
            log_probs=best,
            end_log_probs=end_log_probs,
            may_end=may_end,
        )

    def _avoid_repetition(self, log_probs, live_tokens):
        """Returns log-probabilities [B, K, V] with those of repeated tokens."""
        graph, config = self._graph, self._config
        tokens = live_tokens[:, :, 1:]
        if config.repetition_penalty != 1:
            values = graph.op("GatherElements", log_probs, tokens, axis=2)
            values *= config.repetition_penalty
            log_probs = graph.op(
                "ScatterElements", log_probs, tokens, values, axis=2
            )
        if size := config.no_repeat_ngram_size:
            length = tokens.size(2)
            # Of tokens with size - 1 others before them.
            count = graph.op("Max", length - (size - 1), 0)
            repeated = tokens[:, :, size - 1 :]
            blocked = graph.equal(repeated, repeated)
            for distance in range(1, size):
                last = tokens[:, :, length - distance : length - distance + 1]
                first = size - 1 - distance
                before = tokens[:, :, first : count + first]
                blocked = blocked & graph.equal(before, last)
            repeated = graph.where(blocked, repeated, PAD_ID)
            values = repeated.cast(FLOAT) * 0.0 + IMPOSSIBLE
            log_probs = graph.op(
                "ScatterElements", log_probs, repeated, values, axis=2
            )
        return log_probs

    def _select_rows(self, values, rows):
        """Selects rows, int64 [n, K], of values [b, k, w] as [b * k, w]."""
        values = self._graph.op("Flatten", values, axis=2)
        return self._graph.op("Gather", values, rows)

    def _penalty(self, length):
        """Returns the divisor of log-probabilities; see `length_penalty`."""
        length = (length + self._num_given).cast(FLOAT)
        if self._config.length_penalty == "gnmt":
            length = (length + 5.0) / 6.0
        return length**self._config.alpha

    def _should_stop(self, length, penalty, limits, best_live, finished_scores):
        """Returns whether sentences meet the stop criterion: boolean [b]."""
        config = self._config
        worst = finished_scores[:, -1]
        if config.stop_criterion == "k_finished":
            enough = worst > LEAST_POSSIBLE
        elif config.stop_criterion == "heuristic":
            enough = best_live / penalty <= worst
        else:  # "exact"
            best_length = limits if config.alpha > 0 else length + 1
            enough = best_live / self._penalty(best_length) <= worst
        return enough | (best_live <= LEAST_POSSIBLE)
