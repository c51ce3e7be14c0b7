"""A load balancer that passes connections to servers in turn (round robin)."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle

_CHUNK = 65536


class Balancer:
    """Listens on a free port."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.served: list[tuple[str, int]] = []
        """The method and path of the first request of each connection, and the port of the server that it went to."""

    @contextmanager
    def pass_to(self, ports: Sequence[int]) -> Iterator[None]:
        """Serve until the block ends."""
        thread = threading.Thread(target=self._serve, args=(ports,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            thread.join()

    def _serve(self, ports: Sequence[int]) -> None:
        for port in cycle(ports):
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(client, port), daemon=True).start()

    def _connect(self, client: socket.socket, port: int) -> None:
        with client, socket.create_connection(("127.0.0.1", port)) as server:
            first = client.recv(_CHUNK)
            self.served.append((first.partition(b"?")[0].partition(b" HTTP/")[0].decode("ascii", "replace"), port))
            server.sendall(first)
            back = threading.Thread(target=_copy, args=(server, client), daemon=True)
            back.start()
            _copy(client, server)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(_CHUNK):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # one side has closed the connection
