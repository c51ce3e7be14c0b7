// @modelcontextprotocol/client (version 2), in either era.
//   node client_v2.mjs legacy|auto COMMAND ARGUMENT... | URL
import { NotificationRecorder, answers, judge, runScenario, print } from "./scenario.mjs";
import { Traffic, reach } from "./transports.mjs";

const { Client, SSEClientTransport, StreamableHTTPClientTransport } = judge("@modelcontextprotocol/client");
const { StdioClientTransport } = judge("@modelcontextprotocol/client/stdio");

const [mode, ...place] = process.argv.slice(2);
const kinds = { Stdio: StdioClientTransport, Http: StreamableHTTPClientTransport, Sse: SSEClientTransport };
const traffic = new Traffic();
const transport = reach(kinds, place, traffic);
const capabilities = { elicitation: { form: {} }, sampling: {}, roots: {} };
const client = new Client({ name: "sdk-v2", version: "2" }, { capabilities, versionNegotiation: { mode } });
const recorder = new NotificationRecorder();
const asked = [];

client.setRequestHandler("elicitation/create", ({ params }) => answers.elicit(asked)(params));
client.setRequestHandler("sampling/createMessage", ({ params }) => answers.sample(asked)(params));
client.setRequestHandler("roots/list", answers.roots);
for (const method of [
  "notifications/tools/list_changed",
  "notifications/resources/list_changed",
  "notifications/resources/updated",
]) {
  client.setNotificationHandler(method, ({ params }) => recorder.record(method, params));
}

await client.connect(transport);
const call = (name, given = {}, options) => client.callTool({ name, arguments: given }, options);
const subscribe = async () => {
  await traffic.listening;
  await client.subscribeResource({ uri: "memo://watched" });
  return () => client.unsubscribeResource({ uri: "memo://watched" });
};
const listen = async () => {
  const wanted = { toolsListChanged: true, resourcesListChanged: true, resourceSubscriptions: ["memo://watched"] };
  const subscription = await client.listen(wanted);
  return () => subscription.close();
};
const watch = mode === "legacy" ? subscribe : listen;
const version = client.getNegotiatedProtocolVersion();
const seen = await runScenario({ client, call, recorder, asked, watch });
await transport.terminateSession?.();
await client.close();
await print({ version, ...seen, traffic: traffic.exchanges });
