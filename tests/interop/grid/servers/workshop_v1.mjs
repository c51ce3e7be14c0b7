// The workshop with @modelcontextprotocol/sdk (version 1), legacy era only.
//   node workshop_v1.mjs stdio|http ROOM JOURNAL
import { furnish, implementation, judge, listen, options, sessions, tellWatchers, transport, write } from "./workshop.mjs";

const { McpServer } = judge("@modelcontextprotocol/sdk/server/mcp.js");
const { StdioServerTransport } = judge("@modelcontextprotocol/sdk/server/stdio.js");
const { StreamableHTTPServerTransport } = judge("@modelcontextprotocol/sdk/server/streamableHttp.js");
const types = judge("@modelcontextprotocol/sdk/types.js");

const schemas = Object.fromEntries(
  Object.values(types)
    .filter((schema) => schema?.shape?.method?.value && schema.shape.params)
    .map((schema) => [schema.shape.method.value, schema]),
);

function makeServer() {
  const server = new McpServer(implementation, options).server;
  const on = (_, method, work) => server.setRequestHandler(schemas[method], ({ params }, extra) => work(params ?? {}, extra));
  const context = (extra) => ({
    isModern: false,
    signal: extra.signal,
    capabilities: server.getClientCapabilities(),
    progress: (progress, total, message) => {
      const progressToken = extra._meta?.progressToken;
      if (progressToken === undefined) return undefined;
      return extra.sendNotification({ method: "notifications/progress", params: { progressToken, progress, total, message } });
    },
    // `sendLoggingMessage` goes to whoever has the session's own stream open; a log of a call belongs to its call.
    log: (level, data, logger) =>
      server.isMessageIgnored(level, extra.sessionId)
        ? undefined
        : extra.sendNotification({ method: "notifications/message", params: { level, data, logger } }),
    elicit: (params) => server.elicitInput(params, { relatedRequestId: extra.requestId }),
    sample: (params) => server.createMessage(params, { relatedRequestId: extra.requestId }),
    updated: tellWatchers,
    changed: {
      tool: () => server.sendToolListChanged(),
      prompt: () => server.sendPromptListChanged(),
      resource: () => server.sendResourceListChanged(),
    },
  });
  return furnish(server, { on, context, Failure: types.McpError });
}

write("process", transport);
if (transport === "stdio") await makeServer().connect(new StdioServerTransport());
else listen(sessions(makeServer, StreamableHTTPServerTransport));
