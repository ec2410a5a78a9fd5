"""Keys that requests must have, with a limit of requests a minute."""

import collections
import hmac
import pathlib
import re
import time

from export.common.errors import InputError
from export.common.storage import explain_read_errors
from export.http_server.fields import RequestError

_MINUTE = 60.0


class ApiKeys:
    """Keys and the maximum number of requests a minute with each, or None."""

    def __init__(self, limits: dict[str, int | None]):
        self._limits = limits
        self._times: dict[str, collections.deque[float]] = (
            collections.defaultdict(collections.deque)
        )

    @classmethod
    def from_file(cls, path: pathlib.Path) -> "ApiKeys":
        """Reads a file with a line for each key: KEY or KEY LIMIT.

        Blank lines and comments, from # on, are skipped. Raises InputError
        if the file is not readable or has no key.
        """
        with explain_read_errors(path):
            lines = path.read_text("utf-8").splitlines()
        limits: dict[str, int | None] = {}
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("#"):
                continue
            key = re.fullmatch(r"\s*(\S+)(?:\s+([1-9][0-9]{0,8}))?\s*", line)
            if key is None or key[1] in limits:
                raise InputError(
                    f"Line {number} of {path} is not a new KEY, or KEY and a "
                    "number of requests a minute."
                )
            limits[key[1]] = int(key[2]) if key[2] else None
        if not limits:
            raise InputError(f"{path} has no key; write one a line.")
        return cls(limits)

    def validate(self, given: str) -> None:
        """Raises RequestError for a wrong key, or one used too often."""
        known = None
        for key in self._limits:
            # In constant time, so that no key can be guessed bit by bit.
            if hmac.compare_digest(
                given.encode("utf-8", "replace"), key.encode("utf-8")
            ):
                known = key
        if known is None:
            raise RequestError(403, "The api_key is missing or wrong.")
        limit = self._limits[known]
        if limit is None:
            return
        times, now = self._times[known], time.monotonic()
        while times and times[0] <= now - _MINUTE:
            times.popleft()
        if len(times) >= limit:
            seconds = int(times[0] + _MINUTE - now) + 1
            raise RequestError(
                429,
                f"This api_key may be used {limit} times a minute.",
                Retry_After=str(seconds),
            )
        times.append(now)
