"""A server that answers like a large language model, or badly."""

import contextlib
import http.server
import json
import threading
import time


class TeacherServer(http.server.ThreadingHTTPServer):
    """Answers with the capitals of the prompt's last line.

    `fault` is a function of the number of a request, from 1, and of the last
    line, that returns a name in `FAULTS`, or None.
    """

    daemon_threads = True

    def __init__(self, fault=lambda number, text: None, key=None):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.fault, self.key = fault, key
        self.requests, self.lock = [], threading.Lock()
        self.num_open = self.max_open = 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/v1"

    def wait(self):
        """Waits until no request is open, not even an unread one."""
        time.sleep(0.2)
        while self.num_open:
            time.sleep(0.01)

    def lines(self):
        return [prompt.splitlines()[-1] for _, prompt, _ in self.requests]


class _Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        server = self.server
        length = int(self.headers["Content-Length"])
        content = self.rfile.read(length)
        # The client may have been killed.
        if len(content) < length:
            return
        request = json.loads(content)
        prompt = request.get("prompt")
        if prompt is None:
            ((_, prompt),) = [each.values() for each in request["messages"]]
        with server.lock:
            server.num_open += 1
            server.max_open = max(server.max_open, server.num_open)
            server.requests.append((self.path, prompt, request))
            number = len(server.requests)
        try:
            self._respond(prompt.splitlines()[-1], number)
        finally:
            with server.lock:
                server.num_open -= 1

    def _respond(self, text, number):
        key = self.headers.get("Authorization")
        if self.server.key and key != f"Bearer {self.server.key}":
            self._send(401, {"error": f"Wrong key {key}."})
            return
        fault = self.server.fault(number, text)
        answer, finish = f" {text.upper()}\n", "stop"
        if isinstance(fault, int):
            self._send(fault, {"error": {"message": "no"}})
            return
        if fault == "slow":
            time.sleep(2)
        elif fault == "closed":
            self.close_connection = True
            return
        elif fault == "truncated":
            self._send(200, {}, extra=100)
            return
        elif fault == "malformed":
            self._send(200, {"choices": [{"message": {"content": None}}]})
            return
        elif fault == "cut":
            finish = "length"
        elif fault is not None:
            answer = fault
        choice = {"finish_reason": finish}
        if self.path.endswith("/chat/completions"):
            choice["message"] = {"role": "assistant", "content": answer}
        else:
            choice["text"] = answer
        usage = {"prompt_tokens": 10, "completion_tokens": 3}
        self._send(200, {"choices": [choice], "usage": usage})

    def _send(self, status, value, extra=0):
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content) + extra))
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(content)


@contextlib.contextmanager
def serve(*arguments, **options):
    server = TeacherServer(*arguments, **options)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
