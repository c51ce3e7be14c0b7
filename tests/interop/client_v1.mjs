// @modelcontextprotocol/sdk (version 1): the client most programs have today, legacy era only.
//   node client_v1.mjs COMMAND ARGUMENT...
import { Ear, answers, judge, play, print } from "./scenario.mjs";

const { Client } = judge("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = judge("@modelcontextprotocol/sdk/client/stdio.js");
const types = judge("@modelcontextprotocol/sdk/types.js");

const [command, ...args] = process.argv.slice(2);
const capabilities = { elicitation: { form: {} }, sampling: {}, roots: {} };
const client = new Client({ name: "sdk-v1", version: "1" }, { capabilities });
const ear = new Ear();
const asked = [];

client.setRequestHandler(types.ElicitRequestSchema, ({ params }) => answers.elicit(asked)(params));
client.setRequestHandler(types.CreateMessageRequestSchema, ({ params }) => answers.sample(asked)(params));
client.setRequestHandler(types.ListRootsRequestSchema, answers.roots);
for (const schema of [
  types.ToolListChangedNotificationSchema,
  types.ResourceListChangedNotificationSchema,
  types.ResourceUpdatedNotificationSchema,
]) {
  client.setNotificationHandler(schema, ({ method, params }) => ear.hear(method, params));
}

await client.connect(new StdioClientTransport({ command, args, stderr: "ignore" }));
const call = (name, given = {}, options) => client.callTool({ name, arguments: given }, undefined, options);
const watch = async () => {
  await client.subscribeResource({ uri: "memo://watched" });
  return () => client.unsubscribeResource({ uri: "memo://watched" });
};
await print(await play({ client, call, ear, asked, watch }));
await client.close();
