"""Serves translators over HTTP: `python -m export.serve --model=runs/demo`.

A model is a model directory, an exported version, the folder of its versions
(the newest is served), or a folder of export.onnx; a folder of them, or --model
repeated, serves several. A request's languages choose; without a model for
them, two are used by way of a third language. An export that is replaced, or a
newer version, is served from then on. For one machine, without TensorFlow
Serving or Docker:

  http://localhost:5000/              a page to type into
  .../translate, /detect, /languages  the interface of LibreTranslate (/docs)
  .../v1/models/translator:predict    that of TensorFlow Serving, for
                                      export.client
  .../metrics                         for Prometheus

Concurrent requests are translated in batches. SIGTERM and Ctrl-C finish the
requests in progress.
"""

import pathlib
import re
import socket

from absl import flags

from export.common import command
from export.common.errors import InputError
from export.common.processes import processor_count, share_processors
from export.translators import search_flags

FLAGS = flags.FLAGS

search_flags.define_model_search()
search_flags.define_languages()
flags.DEFINE_multi_string(
    "model",
    None,
    "Model directory, exported version, folder of versions, folder of "
    "export.onnx, or folder of several of these; may be repeated.",
    required=True,
)
flags.DEFINE_string(
    "host",
    "127.0.0.1",
    "Address to listen on, by default for this machine only; for all 0.0.0.0, "
    "or :: with those of IPv6.",
)
flags.DEFINE_integer(
    "port",
    5000,
    "Port to listen on; 0 for any free one.",
    lower_bound=0,
    upper_bound=65_535,
)
flags.DEFINE_string(
    "model_name",
    "translator",
    "Name of the model in /v1/models/NAME:predict; several have the names of "
    "their folders.",
)
flags.DEFINE_string(
    "api_key", None, "Key that requests must have; none by default."
)
flags.DEFINE_string(
    "api_keys",
    None,
    "File of such keys, one a line, each with its number of requests a minute "
    "or without a limit.",
)
flags.DEFINE_integer(
    "max_waiting",
    1024,
    "Number of texts that may wait; further requests get status 429.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "max_batch",
    64,
    "Number of texts that are translated together.",
    lower_bound=1,
)
flags.DEFINE_float(
    "timeout_seconds",
    60.0,
    "Time limit of a request and of its translation, in seconds.",
    lower_bound=0.1,
    upper_bound=86_400,
)
flags.DEFINE_float(
    "max_memory_gib",
    None,
    "Memory of the server, in GiB, above which it unloads the exports that it "
    "used least recently, until they are asked for again.",
    lower_bound=0.1,
)
flags.DEFINE_boolean(
    "any_origin",
    False,
    "Let web pages of other origins ask (CORS), as LibreTranslate does.",
)
command.mark_flags_as_finite("timeout_seconds", "max_memory_gib")


def main(arguments: list[str]) -> None:
    """Serves until it is interrupted."""
    del arguments
    num_threads = processor_count()
    share_processors(num_threads)
    # Not at the top: they need packages that only servers have.
    from export.http_server import app, connections, models

    if not FLAGS.model_name.isidentifier():
        raise InputError(
            f"Expected letters, digits and _ as --model_name, got "
            f"{FLAGS.model_name}."
        )
    keys = _read_api_keys()
    listener = _listen(FLAGS.host, FLAGS.port)
    with listener:
        search = search_flags.read_given_flags(search_flags.MODEL_SEARCH)
        languages = [FLAGS[name].value for name in search_flags.LANGUAGES]
        paths = [
            each for path in FLAGS.model for each in models.find_models(path)
        ]
        if len(paths) > 1 and any(languages):
            raise InputError(
                "--source_language and --target_language are for one model: "
                "requests choose among several."
            )
        bound = FLAGS.max_memory_gib
        loaded = models.load_models(
            dict(zip(_name_models(paths), paths)),
            search,
            languages,
            bound and int(bound * 2**30),
        )
        limits = app.ServerLimits(
            max_batch=FLAGS.max_batch,
            max_waiting=FLAGS.max_waiting,
            timeout=FLAGS.timeout_seconds,
            num_threads=num_threads,
            any_origin=FLAGS.any_origin,
        )
        application = app.create_app(loaded, limits, keys)
        address = _format_address(*listener.getsockname()[:2])
        names = ", ".join(map(str, paths))
        print(f"Serving {names} on http://{address}/", flush=True)
        connections.create_server(application, limits).run(sockets=[listener])


def _read_api_keys():
    # Not at the top: only servers have its packages.
    from export.http_server.api_keys import ApiKeys

    if FLAGS.api_keys is None:
        return FLAGS.api_key and ApiKeys({FLAGS.api_key: None})
    if FLAGS.api_key is not None:
        raise InputError("Give --api_key or --api_keys, not both.")
    return ApiKeys.from_file(pathlib.Path(FLAGS.api_keys))


def _name_models(paths):
    """Returns --model_name, or for several paths the names of their folders.

    Other characters than letters and digits become _, and a number makes equal
    names different.
    """
    if len(paths) == 1:
        return [FLAGS.model_name]
    names = []
    for path in paths:
        name = re.sub(
            r"\W", "_", pathlib.Path(path).name or "model", flags=re.A
        )
        while name in names:
            name += "_2"
        names.append(name)
    return names


def _listen(host, port):
    """Returns a listening socket; InputError if the address is not free.

    "::" are all addresses, of IPv4 too where the system can do so.
    """
    is_ipv6 = ":" in host
    try:
        return socket.create_server(
            (host, port),
            family=socket.AF_INET6 if is_ipv6 else socket.AF_INET,
            backlog=2048,
            dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6(),
        )
    except OSError as error:
        raise InputError(
            f"{_format_address(host, port)} cannot be listened on, "
            f"{error.strerror or error}: give another --host or --port."
        ) from error


def _format_address(host, port):
    """Returns host and port as in a URL."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


if __name__ == "__main__":
    command.run(main)
