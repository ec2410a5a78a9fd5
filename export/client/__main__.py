"""Translates lines with TensorFlow Serving: `python -m export.client`.

  python -m export.client --url=http://host:8501 < in > out
  python -m export.client --grpc=host:8500 --n_best=4 < in > out

The output lines have the formats of export.translate; --document and --format
translate documents as it does, and `FILE… --output_dir=DIR` files. --url runs
without TensorFlow; --grpc, which is not encrypted, needs TensorFlow.
"""

from absl import flags

from export.client.remote_backend import ModelServer, RemoteBackend, ServedModel
from export.client.rest_server import RestServer
from export.common import command
from export.formats import file_flags
from export.formats.files import FORMATS
from export.lines import line_flags
from export.translators import search_flags
from export.translators.translator import Translator

FLAGS = flags.FLAGS

line_flags.define_translation(("auto", *FORMATS))
file_flags.define_files()
search_flags.define_terms()
search_flags.define_languages()

flags.DEFINE_string("url", None, "Address for REST, such as http://host:8501.")
flags.DEFINE_string("grpc", None, "Host and port for gRPC, such as host:8500.")
flags.DEFINE_string("model_name", "translator", "Name of the served model.")
flags.DEFINE_integer(
    "version",
    None,
    "Version of the model; the newest on the server by default.",
    lower_bound=1,
)
flags.DEFINE_string("label", None, "Label of a version, such as stable.")
flags.DEFINE_integer("batch_size", 64, "Sentences per request.", lower_bound=1)
flags.DEFINE_float(
    "timeout_seconds",
    30.0,
    "Time limit of a response, in seconds; at most a day.",
    lower_bound=0.001,
    upper_bound=86_400,
)
command.mark_flags_as_finite("timeout_seconds")
flags.DEFINE_integer(
    "retries",
    2,
    "Retries of a request while the server cannot be reached or is too busy, "
    "after pauses of 0.5, 1, 2, ... seconds.",
    lower_bound=0,
)
flags.mark_flags_as_mutual_exclusive(["url", "grpc"], required=True)
flags.mark_flags_as_mutual_exclusive(["version", "label"])


def main(arguments: list[str]) -> int | None:
    """Translates files, or standard input."""
    files = arguments[1:]
    file_flags.validate_input(files)
    terms = search_flags.read_terms()
    model = ServedModel(FLAGS.model_name, FLAGS.version, FLAGS.label)
    server: ModelServer
    if FLAGS.url is not None:
        server = RestServer(FLAGS.url, model, FLAGS.timeout_seconds)
    else:
        # Not at the top: it imports TensorFlow.
        from export.client.grpc_server import GrpcServer

        server = GrpcServer(FLAGS.grpc, model, FLAGS.timeout_seconds)
    translator = search_flags.select_languages(
        Translator(RemoteBackend(server, FLAGS.batch_size, FLAGS.retries))
    )
    if files:
        return file_flags.translate_files(translator, files, terms)
    line_flags.translate_stream(translator, terms=terms)
    return None


if __name__ == "__main__":
    command.run(main, any_backend=True, operands=None)
