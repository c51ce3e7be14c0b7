// The studio with @modelcontextprotocol/server (version 2), in both eras.
//   node typescript_v2.mjs stdio|http
import { furnish, implementation, judge, listen, options, sessions } from "./studio.mjs";

const { McpServer, ResourceTemplate, completable, createMcpHandler, inputRequired, isLegacyRequest } = judge(
  "@modelcontextprotocol/server",
);
const { serveStdio } = judge("@modelcontextprotocol/server/stdio");
const { NodeStreamableHTTPServerTransport, toNodeHandler, toWebRequest } = judge("@modelcontextprotocol/node");

const context = ({ mcpReq }) => ({
  signal: mcpReq.signal,
  progress: (progress, total, message) => {
    const progressToken = mcpReq._meta?.progressToken;
    if (progressToken === undefined) return undefined;
    const params = { progressToken, progress, total, message };
    return mcpReq.notify({ method: "notifications/progress", params });
  },
});

// One question for both eras: the SDK sends it itself where the client cannot come back with the answer.
function ask({ mcpReq }, kind, params, answer) {
  const given = mcpReq.inputResponses?.answer;
  if (given !== undefined) return answer(given);
  return inputRequired({ inputRequests: { answer: inputRequired[kind](params) }, requestState: kind });
}

let modern; // over HTTP, where each request has a server of its own and changes are told to the handler

function makeServer({ era }) {
  const server = new McpServer(implementation, options);
  const watching = new Set();
  server.server.setRequestHandler("resources/subscribe", ({ params }) => void watching.add(params.uri) ?? {});
  server.server.setRequestHandler("resources/unsubscribe", ({ params }) => void watching.delete(params.uri) ?? {});
  const changed = {
    tools: () => modern?.notify.toolsChanged(),
    resource: async (_, uri) => {
      modern?.notify.resourceUpdated(uri);
      if (watching.has(uri) || era === "modern") await server.server.sendResourceUpdated({ uri });
    },
  };
  return furnish(server, { sdk: { ResourceTemplate, completable, wantsObjects: true }, context, ask, changed });
}

if (process.argv[2] === "stdio") {
  serveStdio(makeServer);
} else {
  modern = createMcpHandler(makeServer, { legacy: "reject" });
  const [handleModern, handleLegacy] = [toNodeHandler(modern), sessions(() => makeServer({ era: "legacy" }), NodeStreamableHTTPServerTransport)];
  listen(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = chunks.length ? JSON.parse(Buffer.concat(chunks)) : undefined;
    const isLegacy = await isLegacyRequest(await toWebRequest(request, body), body);
    await (isLegacy ? handleLegacy(request, response, body) : handleModern(request, response, body));
  });
}
