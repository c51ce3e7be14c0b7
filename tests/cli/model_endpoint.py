"""An OpenAI-compatible endpoint with scripted answers, streamed or not."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = str | int | list[tuple[str, dict[str, Any]]]
"""Text, an HTTP status, or calls of tools by name."""


class ModelEndpoint:
    """Its scripted answers, and the requests that it received."""

    def __init__(self, answers: Sequence[Answer], models: Sequence[str]) -> None:
        self.answers = list(answers)
        self.models = list(models)
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.url = ""

    @property
    def listed_tools(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.requests[0].get("tools", [])]

    def results(self) -> list[dict[str, Any]]:
        """The results of tool calls in the last request."""
        return [json.loads(each["content"]) for each in self.requests[-1]["messages"] if each["role"] == "tool"]


@contextmanager
def serve_model(*answers: Answer, models: Sequence[str] = ("scripted",)) -> Iterator[ModelEndpoint]:
    script = ModelEndpoint(answers, models)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(200, {"data": [{"id": name} for name in script.models]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            script.requests.append(body)
            script.keys.append(self.headers["Authorization"])
            answer = script.answers.pop(0) if script.answers else "nothing more"
            if isinstance(answer, int):
                self._send(answer, {"error": {"message": "not today"}})
            elif body.get("stream"):
                self._stream(answer)
            else:
                reason = "stop" if isinstance(answer, str) else "tool_calls"
                self._send(200, {"choices": [{"message": make_message(answer), "finish_reason": reason}]})

        def _send(self, status: int, body: dict[str, Any], kind: str = "application/json") -> None:
            self._write(status, json.dumps(body).encode(), kind)

        def _stream(self, answer: Answer) -> None:
            message = make_message(answer)
            pieces = [{"content": piece} for piece in message.get("content", "").split("|")]
            pieces += [{"tool_calls": [{"index": at, **call}]} for at, call in enumerate(message.get("tool_calls", []))]
            chunks: list[dict[str, Any]] = [{"choices": [{"delta": piece, "finish_reason": None}]} for piece in pieces]
            chunks.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
            events = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
            self._write(200, events.encode(), "text/event-stream")

        def _write(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Write no log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        script.url = f"http://127.0.0.1:{server.server_port}/v1"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield script
        finally:
            server.shutdown()
            thread.join()


def make_message(answer: Answer) -> dict[str, Any]:
    if not isinstance(answer, list):
        return {"role": "assistant", "content": str(answer)}
    calls = [
        {"id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for at, (name, arguments) in enumerate(answer)
    ]
    return {"role": "assistant", "tool_calls": calls}
