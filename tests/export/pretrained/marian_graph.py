"""NumPy reference: Marian's Transformer in float64, from its description."""

import numpy as np


class MarianGraph:
    """Marian's network, one sentence at a time."""

    def __init__(self, arrays, options):
        self._arrays = {
            name: np.asarray(array, np.float64)
            for name, array in arrays.items()
        }
        self._options = options

    def logits(self, source, target):
        """Returns float64 [T + 1, V] for ids [S] with the end, and [T]."""
        table = self._arrays["Wemb"]
        memory = self._add_positions(table[source])
        for number in range(1, self._options["enc-depth"] + 1):
            layer = f"encoder_l{number}"
            memory = self._attend(f"{layer}_self", memory, memory, False)
            memory = self._feed_forward(f"{layer}_ffn", memory)
        # The decoder begins with a zero.
        state = self._add_positions(np.pad(table[target], [(1, 0), (0, 0)]))
        for number in range(1, self._options["dec-depth"] + 1):
            layer = f"decoder_l{number}"
            state = self._attend(f"{layer}_self", state, state, True)
            state = self._attend(f"{layer}_context", state, memory, False)
            state = self._feed_forward(f"{layer}_ffn", state)
        return state @ table.T + self._arrays["decoder_ff_logit_out_b"]

    def _add_positions(self, embedded):
        """Scales, and adds sines in the first half, cosines in the other."""
        length, width = embedded.shape
        half = width // 2
        rates = np.exp(np.arange(half) * -np.log(10000.0) / (half - 1))
        angles = np.arange(length)[:, None] * rates
        signal = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        return embedded * np.sqrt(width) + signal

    def _affine(self, inputs, stem, suffix):
        weight = self._arrays[f"{stem}_W{suffix}"]
        return inputs @ weight + self._arrays[f"{stem}_b{suffix}"]

    def _attend(self, stem, queries, memory, causal):
        query = self._split_heads(self._affine(queries, stem, "q"))
        key = self._split_heads(self._affine(memory, stem, "k"))
        value = self._split_heads(self._affine(memory, stem, "v"))
        scores = query @ key.transpose(0, 2, 1) / np.sqrt(query.shape[-1])
        if causal:
            scores = np.where(np.tri(len(queries)) > 0, scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        joined = (weights @ value).transpose(1, 0, 2).reshape(queries.shape)
        output = self._affine(joined, stem, "o")
        return self._normalize(output + queries, f"{stem}_Wo_ln")

    def _split_heads(self, values):
        heads = self._options["transformer-heads"]
        return values.reshape(len(values), heads, -1).transpose(1, 0, 2)

    def _feed_forward(self, stem, inputs):
        inner = self._affine(inputs, stem, "1")
        activation = self._options["transformer-ffn-activation"]
        gate = {
            "swish": lambda x: x / (1.0 + np.exp(-x)),
            "relu": lambda x: np.maximum(x, 0.0),
        }[activation]
        output = self._affine(gate(inner), stem, "2")
        return self._normalize(output + inputs, f"{stem}_ffn_ln")

    def _normalize(self, values, stem):
        centered = values - values.mean(-1, keepdims=True)
        deviation = np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-6)
        scale = self._arrays[f"{stem}_scale"]
        return centered / deviation * scale + self._arrays[f"{stem}_bias"]
