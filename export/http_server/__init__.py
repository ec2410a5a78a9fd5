"""An HTTP server for translators, without TensorFlow Serving.

`models` loads them, `model_pool` keeps exports in memory, `batcher` merges
concurrent requests, `fields` parses them, `connections` limits their time and
number, `app` has the interfaces: a page, LibreTranslate's and TensorFlow
Serving's.
"""
