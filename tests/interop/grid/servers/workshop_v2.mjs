// The workshop with @modelcontextprotocol/server (version 2), in both eras.
//   node workshop_v2.mjs stdio|http ROOM JOURNAL
import { furnish, implementation, judge, listen, options, sessions, tellWatchers, transport, write } from "./workshop.mjs";

const { McpServer, ProtocolError, createMcpHandler, isLegacyRequest } = judge("@modelcontextprotocol/server");
const { serveStdio } = judge("@modelcontextprotocol/server/stdio");
const { NodeStreamableHTTPServerTransport, toNodeHandler, toWebRequest } = judge("@modelcontextprotocol/node");

let modern; // over HTTP, where each request has a server of its own and changes are told to the handler

function makeServer({ era }) {
  const outer = new McpServer(implementation, options);
  const server = outer.server;
  const isModern = era === "modern";
  const on = (_, method, work) => server.setRequestHandler(method, ({ params }, extra) => work(params ?? {}, extra));
  const context = ({ mcpReq }) => ({
    isModern,
    signal: mcpReq.signal,
    capabilities: isModern ? mcpReq.envelope?.["io.modelcontextprotocol/clientCapabilities"] : server.getClientCapabilities(),
    answers: mcpReq.inputResponses,
    state: mcpReq.requestState(),
    progress: (progress, total, message) => {
      const progressToken = mcpReq._meta?.progressToken;
      if (progressToken === undefined) return undefined;
      return mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, total, message } });
    },
    log: mcpReq.log,
    elicit: mcpReq.elicitInput,
    sample: mcpReq.requestSampling,
    updated: async (uri) => {
      modern?.notify.resourceUpdated(uri);
      await (isModern ? server.sendResourceUpdated({ uri }) : tellWatchers(uri));
    },
    changed: {
      tool: () => (modern?.notify.toolsChanged(), server.sendToolListChanged()),
      prompt: () => (modern?.notify.promptsChanged(), server.sendPromptListChanged()),
      resource: () => (modern?.notify.resourcesChanged(), server.sendResourceListChanged()),
    },
  });
  furnish(server, { on, context, Failure: ProtocolError });
  return outer;
}

write("process", transport);
if (transport === "stdio") {
  serveStdio(makeServer);
} else {
  modern = createMcpHandler(makeServer, { legacy: "reject" });
  const handleModern = toNodeHandler(modern);
  const handleLegacy = sessions(() => makeServer({ era: "legacy" }), NodeStreamableHTTPServerTransport);
  listen(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = chunks.length ? JSON.parse(Buffer.concat(chunks)) : undefined;
    const isLegacy = await isLegacyRequest(await toWebRequest(request, body), body);
    await (isLegacy ? handleLegacy(request, response, body) : handleModern(request, response, body));
  });
}
