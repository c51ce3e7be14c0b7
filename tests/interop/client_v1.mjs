// @modelcontextprotocol/sdk (version 1): the client most programs have today, legacy era only.
//   node client_v1.mjs COMMAND ARGUMENT... | URL
import { NotificationRecorder, answers, judge, runScenario, print } from "./scenario.mjs";
import { Traffic, reach } from "./transports.mjs";

const { Client } = judge("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = judge("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = judge("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { SSEClientTransport } = judge("@modelcontextprotocol/sdk/client/sse.js");
const { WebSocketClientTransport } = judge("@modelcontextprotocol/sdk/client/websocket.js");
const types = judge("@modelcontextprotocol/sdk/types.js");

const kinds = {
  Stdio: StdioClientTransport,
  Http: StreamableHTTPClientTransport,
  Sse: SSEClientTransport,
  WebSocket: WebSocketClientTransport,
};
const traffic = new Traffic();
const transport = reach(kinds, process.argv.slice(2), traffic);
const capabilities = { elicitation: { form: {} }, sampling: {}, roots: {} };
const client = new Client({ name: "sdk-v1", version: "1" }, { capabilities });
const recorder = new NotificationRecorder();
const asked = [];

client.setRequestHandler(types.ElicitRequestSchema, ({ params }) => answers.elicit(asked)(params));
client.setRequestHandler(types.CreateMessageRequestSchema, ({ params }) => answers.sample(asked)(params));
client.setRequestHandler(types.ListRootsRequestSchema, answers.roots);
for (const schema of [
  types.ToolListChangedNotificationSchema,
  types.ResourceListChangedNotificationSchema,
  types.ResourceUpdatedNotificationSchema,
]) {
  client.setNotificationHandler(schema, ({ method, params }) => recorder.record(method, params));
}

await client.connect(transport);
const call = (name, given = {}, options) => client.callTool({ name, arguments: given }, undefined, options);
const watch = async () => {
  await traffic.listening;
  await client.subscribeResource({ uri: "memo://watched" });
  return () => client.unsubscribeResource({ uri: "memo://watched" });
};
const seen = await runScenario({ client, call, recorder, asked, watch });
await transport.terminateSession?.();
await client.close();
await print({ ...seen, traffic: traffic.exchanges });
