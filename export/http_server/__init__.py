"""An HTTP server for one translator, without TensorFlow Serving.

`models` runs signatures, `batcher` merges concurrent requests, `fields` parses
them, `connections` limits their time and number, `app` has the interfaces: a
page, LibreTranslate's and TensorFlow Serving's.
"""
