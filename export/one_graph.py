"""A function as one graph, which threads share."""

import functools

import tensorflow as tf


def one_graph(function, *signature, **options):
    """Returns a function that is traced at its first call and never again.

    Args:
        function: of tensors.
        *signature: tf.TensorSpec of each, or tuples of them.
        **options: of tf.function.

    Returns:
        A function of as many tensors or arrays.
    """
    graph = tf.function(
        function, input_signature=signature, autograph=False, **options
    )
    # A thread that waits for another's tracing is taken by tf.function for
    # one that traced as well, and a few of these for tracing without end.
    traced = functools.cache(graph.get_concrete_function)
    return lambda *arguments: traced()(*arguments)
