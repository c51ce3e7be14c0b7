// Transports of the clients: a command is started on stdio, a URL is connected to over HTTP.
//
// Over HTTP every exchange is recorded, so that the test can check the session ids, resumed streams
// and the end of the session.
export class Traffic {
  exchanges = [];
  #opened;
  // Settled when the stream of changes is open: before that, a legacy session gets no notifications.
  listening = new Promise((resolve) => (this.#opened = resolve));

  fetch = async (url, init = {}) => {
    const response = await fetch(url, init);
    const sent = new Headers(init.headers);
    const method = init.method ?? "GET";
    const session = sent.get("mcp-session-id");
    this.exchanges.push({ method, status: response.status, session, lastEventId: sent.get("last-event-id") });
    if (method === "GET" && response.ok) this.#opened();
    return response;
  };

  isQuiet() {
    this.#opened();
  }
}

// `kinds` are the transports of the SDK; `place` is the rest of the command line.
export function reach(kinds, place, traffic) {
  const [first, ...args] = place;
  const { pathname, protocol } = URL.canParse(first) ? new URL(first) : {};
  if (protocol === "http:" && pathname === "/sse") return new kinds.Sse(new URL(first), { fetch: traffic.fetch });
  if (protocol === "http:") return new kinds.Http(new URL(first), { fetch: traffic.fetch });
  traffic.isQuiet();
  if (protocol === "ws:") return new kinds.WebSocket(new URL(first));
  return new kinds.Stdio({ command: first, args, stderr: "ignore" });
}
