// The studio with @modelcontextprotocol/sdk (version 1), legacy era only.
//   node typescript_v1.mjs stdio|http
import { furnish, implementation, judge, listen, options, sessions } from "./studio.mjs";

const { McpServer, ResourceTemplate } = judge("@modelcontextprotocol/sdk/server/mcp.js");
const { completable } = judge("@modelcontextprotocol/sdk/server/completable.js");
const { StdioServerTransport } = judge("@modelcontextprotocol/sdk/server/stdio.js");
const { StreamableHTTPServerTransport } = judge("@modelcontextprotocol/sdk/server/streamableHttp.js");
const types = judge("@modelcontextprotocol/sdk/types.js");

const context = (extra) => ({
  signal: extra.signal,
  progress: (progress, total, message) => {
    const progressToken = extra._meta?.progressToken;
    if (progressToken === undefined) return undefined;
    const params = { progressToken, progress, total, message };
    return extra.sendNotification({ method: "notifications/progress", params });
  },
});

function makeServer() {
  const server = new McpServer(implementation, options);
  const watching = new Set();
  server.server.setRequestHandler(types.SubscribeRequestSchema, ({ params }) => void watching.add(params.uri) ?? {});
  server.server.setRequestHandler(types.UnsubscribeRequestSchema, ({ params }) => void watching.delete(params.uri) ?? {});
  const changed = {
    resource: (_, uri) => (watching.has(uri) ? server.server.sendResourceUpdated({ uri }) : undefined),
  };
  const methods = { elicit: "elicitInput", createMessage: "createMessage", listRoots: "listRoots" };
  const ask = async (extra, kind, params, answer) =>
    answer(await server.server[methods[kind]](params, { relatedRequestId: extra.requestId }));
  return furnish(server, { sdk: { ResourceTemplate, completable, wantsObjects: false }, context, ask, changed });
}

if (process.argv[2] === "stdio") await makeServer().connect(new StdioServerTransport());
else listen(sessions(makeServer, StreamableHTTPServerTransport));
