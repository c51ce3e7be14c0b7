// Requests of a page to an MCP server of another origin. The page asserts nothing: each result is
// a value or the name of the error, and all of them are posted to the server that the page came from.
const mcp = new URLSearchParams(location.search).get("mcp");
const JSON_TYPE = { "Content-Type": "application/json" };
const BOTH = { Accept: "application/json, text/event-stream" };
const META = "io.modelcontextprotocol/";
const TIMEOUT_MS = 10_000;

const message = (method, params, id = 1) => JSON.stringify({ jsonrpc: "2.0", id, method, params });
const toolCall = (name, given = {}) => message("tools/call", { name, arguments: given });
const post = (body, headers = {}, options = {}) =>
  fetch(mcp, { method: "POST", headers: { ...JSON_TYPE, ...headers }, body, ...options });
const text = async (response) => (await response.json()).result.content[0].text;

function within(work, what) {
  const late = new Promise((_, reject) => setTimeout(() => reject(new Error(`${what} took too long`)), TIMEOUT_MS));
  return Promise.race([work, late]);
}

async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let left = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (left + value).split("\n\n");
    left = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n").filter((line) => line.startsWith("data: "));
      const data = lines.map((line) => line.slice(6)).join("\n");
      if (data) yield JSON.parse(data); // the first event of a stream is empty
    }
  }
}

const experiments = {
  async health() {
    return (await (await fetch(new URL("/health", mcp))).json()).status;
  },

  async plain() {
    const response = await post(toolCall("echo", { text: "plain" }));
    return { status: response.status, text: await text(response), version: response.headers.get("X-MCP-Version") };
  },

  async legacy() {
    const clientInfo = { name: "page", version: "1" };
    const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo };
    const opened = await post(message("initialize", params), BOTH);
    const session = opened.headers.get("Mcp-Session-Id");
    const version = (await opened.json()).result.protocolVersion;
    const headers = { ...BOTH, "Mcp-Session-Id": session, "MCP-Protocol-Version": version };
    const ready = JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" });
    const accepted = (await post(ready, headers)).status;
    const stream = await fetch(mcp, { headers: { ...headers, Accept: "text/event-stream" } });
    const called = await text(await post(toolCall("add_tool", { name: "legacy_tool" }), headers));
    const received = (await events(stream).next()).value.method;
    const ended = (await fetch(mcp, { method: "DELETE", headers })).status;
    const afterwards = (await post(message("tools/list", {}), headers)).status;
    return { hasSession: Boolean(session), version, accepted, called, received, ended, afterwards };
  },

  async modern() {
    const version = "2026-07-28";
    const _meta = { [`${META}protocolVersion`]: version, [`${META}clientCapabilities`]: {} };
    const body = message("tools/call", { name: "weather", arguments: { region: "north", days: 2 }, _meta });
    const about = { "MCP-Protocol-Version": version, "Mcp-Method": "tools/call", "Mcp-Name": "weather" };
    const response = await post(body, { ...BOTH, ...about, "Mcp-Param-Region": "north", "Mcp-Param-Days": "2" });
    return { status: response.status, text: await text(response) };
  },

  async progress() {
    const body = message("tools/call", { name: "count", arguments: { to: 2 }, _meta: { progressToken: "p" } });
    const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "page", version: "1" } };
    const session = (await post(message("initialize", params), BOTH)).headers.get("Mcp-Session-Id");
    const received = [];
    for await (const event of events(await post(body, { ...BOTH, "Mcp-Session-Id": session }))) {
      received.push(event.params?.progress ?? event.result.content[0].text);
    }
    return received;
  },

  async eventSource() {
    const source = new EventSource(mcp);
    try {
      const opened = new Promise((resolve, reject) => {
        source.onopen = resolve;
        source.onerror = () => reject(new TypeError("the stream did not open"));
      });
      await opened;
      const note = new Promise((resolve) => (source.onmessage = ({ data }) => resolve(JSON.parse(data))));
      await post(toolCall("add_tool", { name: "source_tool" }));
      return (await note).method;
    } finally {
      source.close();
    }
  },

  async webSocket() {
    const address = mcp.replace("http:", "ws:") + "-ws";
    const socket = new WebSocket(address, "mcp.v1");
    const answer = await new Promise((resolve, reject) => {
      socket.onerror = () => reject(new TypeError("the socket did not open"));
      socket.onopen = () => socket.send(toolCall("echo", { text: "socket" }));
      socket.onmessage = ({ data }) => resolve(JSON.parse(data));
    });
    socket.close();
    return { protocol: socket.protocol, text: answer.result.content[0].text };
  },

  async cookies() {
    const scope = async (credentials) =>
      JSON.parse(await text(await post(toolCall("who"), {}, { credentials }))).scope;
    const [first, second] = [await scope("include"), await scope("include")];
    const [third, fourth] = [await scope("omit"), await scope("omit")];
    return { kept: first === second, notSent: third !== fourth, readable: document.cookie };
  },

  // A request that needs no preflight reaches the server; it must not reach a tool.
  async withoutPreflight() {
    const headers = { "Content-Type": "text/plain" };
    const body = toolCall("add_tool", { name: "smuggled_tool" });
    const response = await fetch(mcp, { method: "POST", mode: "no-cors", headers, body });
    return response.type;
  },

  // A sandboxed frame has the origin "null".
  async sandboxed() {
    const frame = document.createElement("iframe");
    frame.sandbox = "allow-scripts";
    const script = `fetch(${JSON.stringify(mcp)}, { method: "POST", headers: ${JSON.stringify(JSON_TYPE)},
      body: ${JSON.stringify(toolCall("add_tool", { name: "sandboxed_tool" }))} })
      .then((response) => response.status, (error) => error.name)
      .then((finding) => parent.postMessage(finding, "*"));`;
    frame.srcdoc = `<script>${script.replaceAll("</", "<\\/")}</scr` + `ipt>`;
    const said = new Promise((resolve) => addEventListener("message", ({ data }) => resolve(data), { once: true }));
    document.documentElement.append(frame);
    return said;
  },
};

const findings = { origin: location.origin };
for (const [name, experiment] of Object.entries(experiments)) {
  try {
    findings[name] = await within(experiment(), name);
  } catch (error) {
    findings[name] = { error: error.name, message: error.message };
  }
}
await fetch("/findings", { method: "POST", body: JSON.stringify(findings) });
