"""Requests of real clients, of broken ones, and of none at all."""

import concurrent.futures
import contextlib
import http.client
import itertools
import json
import re
import socket
import threading
import time
import urllib.parse

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from export.http_server import connections
from export.http_server.app import create_app
from export.http_server.fields import RequestError, parse_fields
from tests.export.http_server.running import (
    MadeUpModel,
    fields_of_translate,
    request,
    run_server,
)

FIELDS = {"q": "a b", "source": "en", "target": "fr"}
PREDICT = "/v1/models/translator:predict"
ROUTES = {
    route.path: route.methods
    for route in create_app({"translator": MadeUpModel().load()}).routes
}
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=x-y"


def as_multipart(fields):
    parts = [
        f'--x-y\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}'
        for name, value in fields.items()
    ]
    return "\r\n".join([*parts, "--x-y--\r\n"]).encode()


@pytest.fixture(scope="module")
def url():
    with run_server(MadeUpModel(), api_key="Key 1", max_bytes=10_000) as url:
        yield url


def send(url, method, path, content=None, headers=None):
    """Returns status, headers and content; JSON where the type says so."""
    connection = http.client.HTTPConnection(
        urllib.parse.urlsplit(url).netloc, timeout=30
    )
    with contextlib.closing(connection):
        connection.request(method, path, content, headers or {})
        response = connection.getresponse()
        body = response.read()
    if response.headers["content-type"] == "application/json" and body:
        body = json.loads(body)
    return response.status, response.headers, body


JSON = json.dumps(FIELDS | {"api_key": "Key 1"})
KEYLESS = json.dumps(FIELDS)


@pytest.mark.parametrize(
    "path, content, headers",
    [
        ("", JSON, {"Content-Type": "application/json; charset=utf-8"}),
        ("", JSON, {}),
        ("", JSON, {"Content-Type": "text/plain"}),
        # curl -d
        ("", JSON, {"Content-Type": FORM}),
        ("", b"\xef\xbb\xbf \r\n" + JSON.encode(), {}),
        # Mastodon, Weblate and pages send what they have not.
        ("", JSON.replace('"en"', "null"), {}),
        ("", JSON.replace("}", ', "format": null, "alternatives": ""}'), {}),
        # libretranslatepy, Discourse
        ("", urllib.parse.urlencode(json.loads(JSON)), {"Content-Type": FORM}),
        ("", urllib.parse.urlencode(json.loads(JSON)), {}),
        # FormData
        ("", as_multipart(json.loads(JSON)), {"Content-Type": MULTIPART}),
        (
            "",
            as_multipart(json.loads(JSON)),
            {"Content-Type": 'Multipart/Form-Data; boundary="x-y"'},
        ),
        ("?api_key=Key%201", KEYLESS, {}),
        (f"?{urllib.parse.urlencode(json.loads(JSON))}", None, {}),
        *(
            ("", KEYLESS, {"Authorization": f"{scheme}Key 1"})
            for scheme in ("Bearer ", "bearer ", "BEARER  ", "")
        ),
        (
            "",
            KEYLESS.replace("}", ', "api_key": null}'),
            {"Authorization": "Bearer Key 1"},
        ),
        # Java's client
        (
            "",
            JSON,
            {
                "Connection": "Upgrade, HTTP2-Settings",
                "Upgrade": "h2c",
                "HTTP2-Settings": "AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
            },
        ),
        ("", JSON, {"Expect": "100-continue"}),
    ],
)
def test_requests_of_real_clients(url, path, content, headers):
    status, found, body = send(
        url, "POST", f"/translate{path}", content, headers
    )
    assert (status, body) == (200, {"translatedText": "B A"})
    assert found["access-control-allow-origin"] == "*"


@pytest.mark.parametrize("count", ["1", 1.0, " 1 ", "1.0"])
def test_numbers_may_be_text(url, count):
    fields = FIELDS | {"alternatives": count, "api_key": "Key 1"}
    assert request(f"{url}/translate", fields) == (
        200,
        {"translatedText": "B A", "alternatives": ["B A!"]},
    )


def test_a_page_of_another_origin_may_ask(url):
    origin = {
        "Origin": "https://example.org",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
    }
    for path in ROUTES:
        status, headers, body = send(url, "OPTIONS", path, headers=origin)
        assert (status, body) == (204, b"")
        assert headers["access-control-allow-origin"] == "*"
        assert "POST" in headers["access-control-allow-methods"]
        assert "Content-Type" in headers["access-control-allow-headers"]


METHODS = (
    *("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"),
    *("CONNECT", "PROPFIND", "NONSENSE"),
)
TYPES = (
    None,
    "application/json",
    FORM,
    MULTIPART,
    "multipart/form-data",
    "\xff",
)
ODD = (
    *(None, "", 0, -1, 1.5, 1e400, True, [], {}, [[]], [None], {"text": []}),
    *("x", "\ud800", "\0", "fr", "9" * 5_000, "<", ">>", ["a", 1], 10**400),
)
BODIES = (
    *(b"", b"{", b"[]", b"3", b"a", b"=", b"&&", b"q=a&q=b", b"\xff=\xff"),
    *(b"--x-y\r\n\r\n--x-y--", b"--x-y--", b"--x-y\r\n", b"\0", JSON.encode()),
    as_multipart({"q": "a"} | {f"f{i}": "" for i in range(200)}),
    *(json.dumps({"q": value}).encode() for value in ODD),
)


def validate(answer, method, path):
    """Asserts that an answer is JSON, and no failure of the server's."""
    status, headers, body = answer
    assert status < 500
    if method == "HEAD" or status == 204:
        assert body == b""
    elif path not in ("/", "/metrics") or status >= 400:
        assert isinstance(body, (dict, list))
        assert (status >= 400) == ("error" in body)
    return status


def test_every_route_answers_every_method_and_type_in_json(url):
    odd = ("/x", "/translate/", "//translate", "/translate;x", "*", "/%00%ff")
    for path, method, kind in itertools.product(
        (*ROUTES, *odd), METHODS, TYPES
    ):
        headers = {"Content-Type": kind} if kind else {}
        content = JSON.encode() if method == "POST" else None
        answer = send(url, method, path, content, headers)
        status = validate(answer, method, path)
        if method not in ROUTES.get(path, ()):
            assert status in (400, 404, 405)
    for path, kind, body in itertools.product(
        ("/translate", PREDICT), TYPES, BODIES
    ):
        headers = {"Authorization": "Bearer Key 1"}
        headers |= {"Content-Type": kind} if kind else {}
        validate(send(url, "POST", path, body, headers), "POST", path)
    for headers in ({"Host": "["}, {"Host": ""}, {"Cookie": "\xff" * 9_000}):
        validate(send(url, "GET", "/x", headers=headers), "GET", "/x")
    assert request(f"{url}/translate", JSON.encode())[0] == 200


def test_every_field_may_have_any_value(url):
    names = {*fields_of_translate(), "instances", "inputs", "signature_name"}
    good = json.loads(JSON) | {"inputs": ["a"]}
    for name, value, path in itertools.product(
        names, ODD, ("/translate", PREDICT)
    ):
        content = json.dumps(good | {name: value})
        validate(send(url, "POST", path, content), "POST", path)
        form = urllib.parse.urlencode(good | {name: value}, errors="replace")
        validate(send(url, "POST", path, form), "POST", path)
    assert request(f"{url}/translate", JSON.encode())[0] == 200


@settings(max_examples=200, deadline=None)
@given(
    st.binary()
    | st.text('{}[]":,\\/0eE=&%-x\r\n', max_size=40).map(str.encode),
    st.sampled_from(TYPES) | st.text(st.characters(max_codepoint=255)),
    st.text("=&%q\xff;+", max_size=9),
)
def test_fields_are_parsed_or_refused(content, kind, query):
    with contextlib.suppress(RequestError):
        assert isinstance(parse_fields(content, kind or "", query), dict)


VALUES = st.text(st.characters(exclude_categories=["Cs"]))


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.text("ab", min_size=1),
        VALUES.filter(lambda value: "--x-y" not in value),
        min_size=1,
    )
)
def test_forms_of_both_types_give_the_same_fields(fields):
    form = urllib.parse.urlencode(fields).encode()
    assert parse_fields(form, FORM, "") == fields
    assert parse_fields(as_multipart(fields), MULTIPART, "") == fields


def connect(url, content=b""):
    host, port = url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=20)
    connection.sendall(content)
    return connection


def read_to_end(connection):
    """Returns what a server sends until it closes, and the time of that."""
    content = b""
    with connection, contextlib.suppress(ConnectionError):
        while block := connection.recv(1 << 16):
            content += block
    return content, time.monotonic()


HEADER = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n"
# Beginnings of requests, and the status that they get at the end.
BEGINNINGS = {
    b"": None,
    b"\r\n": None,
    b"PO": 408,
    HEADER: 408,
    HEADER + b"\r\n": 408,
    HEADER + b"\r\n{": 408,
    HEADER.replace(b"Content-Length: 99", b"Transfer-Encoding: chunked")
    + b"\r\n1\r\n{\r\n": 408,
    b"GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET /": 200,
}


def status_of(content):
    found = re.search(rb"HTTP/1.1 (\d+)", content)
    if found and found[1] != b"200":
        assert "error" in json.loads(content.split(b"\r\n\r\n")[-1])
    return found and int(found[1])


def test_half_requests_are_closed_in_time():
    with run_server(MadeUpModel(), timeout=1.0) as url:
        start = time.monotonic()
        waiting = [connect(url, each) for each in BEGINNINGS]
        slow = connect(url, HEADER)
        # Ever more of a header prolongs nothing.
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < start + 1.5:
                slow.sendall(b"X: y\r\n")
                time.sleep(0.05)
        assert request(f"{url}/translate", FIELDS)[0] == 200
        for connection, status in zip(waiting, BEGINNINGS.values()):
            content, end = read_to_end(connection)
            assert status_of(content) == status
            assert end - start < 5
        assert read_to_end(slow)[1] - start < 5


def test_a_request_may_have_a_limited_length(url):
    long = b"GET /health HTTP/1.1\r\nX: " + b"y" * 200_000
    trailers = HEADER.replace(
        b"Content-Length: 99", b"Transfer-Encoding: chunked"
    )
    trailers += b"\r\n1\r\n{\r\n0\r\nX: " + b"y" * 200_000
    for content in long, trailers:
        with contextlib.suppress(ConnectionError):
            start = time.monotonic()
            status = status_of(read_to_end(connect(url, content))[0])
            assert status in (400, 413, None)
            assert time.monotonic() - start < 10


def test_silent_connections_and_readers_make_room_for_others(monkeypatch):
    monkeypatch.setattr(connections, "_MAX_CONNECTIONS", 20)
    page = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    with run_server(MadeUpModel()) as url, contextlib.ExitStack() as stack:
        # One who does not read what it asks for, and two of each beginning.
        for content in [page * 3_000, *[*BEGINNINGS] * 2]:
            other = stack.enter_context(connect(url))
            other.settimeout(1.0)
            with contextlib.suppress(TimeoutError, ConnectionError):
                other.sendall(content)
        for _ in range(3):
            for _ in range(30):
                stack.enter_context(connect(url))
            assert request(f"{url}/translate", FIELDS)[0] == 200


def test_too_many_requests_in_progress_are_refused_in_json(monkeypatch):
    monkeypatch.setattr(connections, "_MAX_CONNECTIONS", 3)
    model = MadeUpModel()
    model.gate.clear()
    with (
        run_server(model, max_batch=1, num_threads=3) as url,
        concurrent.futures.ThreadPoolExecutor(3) as pool,
    ):
        path = f"{url}/translate"
        busy = [pool.submit(request, path, FIELDS) for _ in range(3)]
        try:
            while len(model.batches) < 3:
                time.sleep(0.01)
            status, headers, body = send(url, "GET", "/health")
        finally:
            model.gate.set()
        assert (status, headers["retry-after"]) == (503, "1")
        assert "error" in body
        assert [each.result()[0] for each in busy] == [200] * 3
        assert request(path, FIELDS)[0] == 200


def test_a_stop_finishes_complete_requests_and_no_others():
    model = MadeUpModel()
    model.gate.clear()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with run_server(model) as url:
            answer = pool.submit(request, f"{url}/translate", FIELDS)
            while not model.batches:
                time.sleep(0.01)
            waiting = [connect(url, each) for each in BEGINNINGS]
            threading.Timer(1.0, model.gate.set).start()
            start = time.monotonic()
        assert time.monotonic() - start < 10
        assert answer.result() == (200, {"translatedText": "B A"})
    for connection in waiting:
        assert status_of(read_to_end(connection)[0]) in (None, 200, 408)
