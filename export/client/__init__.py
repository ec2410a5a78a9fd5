"""Translates text on a running TensorFlow Serving over REST or gRPC.

`remote_backend` makes requests and validates responses, which `rest_server` and
`grpc_server` transmit. Only gRPC imports TensorFlow.
"""
