// How a client reaches the server: a command line is started, an address is asked.
//
// Over HTTP every exchange is remembered, so that the test sees which session was named, what was
// resumed, and how it ended.
export class Traffic {
  exchanges = [];
  #opened;
  // Settled when the stream of changes is open: nothing can be told to a legacy session before.
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

// `kinds` are the transports that an SDK has; `place` is what is left of the command line.
export function reach(kinds, place, traffic) {
  const [first, ...args] = place;
  const { pathname, protocol } = URL.canParse(first) ? new URL(first) : {};
  if (protocol === "http:" && pathname === "/sse") return new kinds.Sse(new URL(first), { fetch: traffic.fetch });
  if (protocol === "http:") return new kinds.Http(new URL(first), { fetch: traffic.fetch });
  traffic.isQuiet();
  if (protocol === "ws:") return new kinds.WebSocket(new URL(first));
  return new kinds.Stdio({ command: first, args, stderr: "ignore" });
}
