"""Sends requests to TensorFlow Serving over REST."""

import http.client
import json
import typing
import urllib.parse

from export.client.remote_backend import ModelServer, ServedModel
from export.common.http_json import LongResponseError, parse_address, post_json

_ERROR_TYPES = {
    400: "refused",
    404: "unknown",
    **dict.fromkeys((429, 502, 503, 504), "busy"),
}


class RestServer(ModelServer):
    """One served model over REST.

    Raises InputError unless `url` is like "http://host:8501", plus a path
    prefix if the server has one.
    """

    def __init__(self, url: str, model: ServedModel, timeout_seconds: float):
        super().__init__(url, model, timeout_seconds)
        self._url = parse_address(url, "url", "http://host:8501")
        self._path = f"{_model_path(model)}:predict"

    def predict(
        self, signature: str, inputs: dict[str, list]
    ) -> dict[str, typing.Any]:
        """Runs a signature, see `ModelServer.predict`; outputs are lists."""
        request = {"signature_name": signature, "inputs": inputs}
        try:
            status, _, response = post_json(
                self._url, self._path, request, self._timeout
            )
        except TimeoutError:
            raise self.error("timeout", f"{self._timeout:g} s") from None
        except LongResponseError as error:
            raise self.error("unreadable", error) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or repr(error)
            raise self.error("unreachable", reason) from error
        try:
            content = json.loads(response)
            outputs = content.get("outputs")
            if status == http.client.OK and isinstance(outputs, dict):
                return outputs
            reason = content["error"]
        except (ValueError, AttributeError, KeyError, RecursionError):
            reason = repr(response[:60])
        if status == http.client.OK:
            raise self.error("unreadable", f"no prediction: {reason}")
        error_type = _ERROR_TYPES.get(status, "failed")
        raise self.error(error_type, f"HTTP {status}, {reason}")


def _model_path(model):
    path = f"/v1/models/{urllib.parse.quote(model.name, safe='')}"
    if model.version is not None:
        return f"{path}/versions/{model.version}"
    if model.label is not None:
        return f"{path}/labels/{urllib.parse.quote(model.label, safe='')}"
    return path
