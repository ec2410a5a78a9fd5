"""Translates lines with TensorFlow Serving: `python -m export.client`.

  python -m export.client --url=http://host:8501 < in > out
  python -m export.client --grpc=host:8500 --n_best=4 < in > out

Each line gives one output line, in the formats of export.translate:

  text                          by default
  score TAB text                with --scores
  text TAB alignment            with --alignments, word pairs as in "0-0 1-2"
  score TAB text TAB alignment  with both

With --n_best=N above 1 it gives up to N lines of Moses' n-best format. --url
runs without TensorFlow; --grpc, which is not encrypted, needs TensorFlow.
"""

from absl import flags

from export.client.remote_translator import RemoteTranslator, ServedModel
from export.client.rest_server import RestServer
from export.common import command
from export.common.errors import InputError
from export.lines import line_flags

FLAGS = flags.FLAGS

line_flags.define_translation()

flags.DEFINE_string("url", None, "Address for REST, such as http://host:8501.")
flags.DEFINE_string("grpc", None, "Host and port for gRPC, such as host:8500.")
flags.DEFINE_string("model_name", "translator", "Name of the served model.")
flags.DEFINE_integer(
    "version",
    None,
    "Version of the model; the server's newest by default.",
    lower_bound=1,
)
flags.DEFINE_string("label", None, "Label of a version, such as stable.")
flags.DEFINE_integer("batch_size", 64, "Sentences in a request.", lower_bound=1)
flags.DEFINE_float(
    "timeout_seconds", 30.0, "Time limit of an answer, in seconds."
)
flags.DEFINE_integer(
    "retries",
    2,
    "Retries of a request while the server cannot be reached or is too busy, "
    "after pauses of 0.5, 1, 2, ... seconds.",
    lower_bound=0,
)

_MAX_TIMEOUT = 86_400


def main(arguments):
    """Translates a file or standard input."""
    del arguments
    line_flags.validate_format()
    if (FLAGS.url is None) == (FLAGS.grpc is None):
        raise InputError(
            "Give either --url=http://host:8501 or --grpc=host:8500."
        )
    if FLAGS.version is not None and FLAGS.label is not None:
        raise InputError("Give either --version or --label, not both.")
    if not 0 < FLAGS.timeout_seconds <= _MAX_TIMEOUT:
        raise InputError(
            f"Expected --timeout_seconds above 0 and at most {_MAX_TIMEOUT}, "
            f"a day, got {FLAGS.timeout_seconds:g}."
        )
    model = ServedModel(FLAGS.model_name, FLAGS.version, FLAGS.label)
    if FLAGS.url is not None:
        server = RestServer(FLAGS.url, model, FLAGS.timeout_seconds)
    else:
        # Not at the top: it imports TensorFlow.
        from export.client.grpc_server import GrpcServer

        server = GrpcServer(FLAGS.grpc, model, FLAGS.timeout_seconds)
    translator = RemoteTranslator(server, FLAGS.batch_size, FLAGS.retries)
    line_flags.translate_stream(translator)


if __name__ == "__main__":
    command.run(main, any_backend=True)
