"""An endpoint with OpenAI's Responses API, which Codex needs, that calls one tool and then answers."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}


class ResponsesEndpoint:
    """What it was asked, and its address."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.url = ""

    def outputs(self) -> list[str]:
        """What the model was told of its calls in the last request."""
        return [str(item["output"]) for item in self.requests[-1]["input"] if item["type"] == "function_call_output"]


@contextmanager
def serve_responses(server: str, tool: str, arguments: dict[str, Any], text: str) -> Iterator[ResponsesEndpoint]:
    """Serve a model that calls a tool of an MCP server, then says the text."""
    endpoint = ResponsesEndpoint()
    call = {
        "type": "function_call", "id": "fc_1", "call_id": "call_1",
        "namespace": f"mcp__{server}", "name": tool, "arguments": json.dumps(arguments),
    }  # fmt: skip
    message = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    }

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            endpoint.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            item = call if len(endpoint.requests) == 1 else message
            events: list[dict[str, Any]] = [
                {"type": "response.created", "response": {"id": "r"}},
                {"type": "response.output_item.done", "output_index": 0, "item": item},
                {"type": "response.completed", "response": {"id": "r", "output": [], "usage": USAGE}},
            ]
            body = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        endpoint.url = f"http://127.0.0.1:{listener.server_port}/v1"
        thread = threading.Thread(target=listener.serve_forever, daemon=True)
        thread.start()
        try:
            yield endpoint
        finally:
            listener.shutdown()
            thread.join()
