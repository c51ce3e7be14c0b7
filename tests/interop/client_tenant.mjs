// A user of one tenant with the TypeScript SDK (version 1, or version 2 in either era): makes calls and prints the results.
//   node client_tenant.mjs v1|legacy|auto KEY CALLS URL
// CALLS is a JSON list of [tool, arguments].
import { judge, print } from "./scenario.mjs";

const [mode, key, calls, url] = process.argv.slice(2);
const isOld = mode === "v1";
const { Client } = judge(isOld ? "@modelcontextprotocol/sdk/client/index.js" : "@modelcontextprotocol/client");
const { StreamableHTTPClientTransport } = judge(
  isOld ? "@modelcontextprotocol/sdk/client/streamableHttp.js" : "@modelcontextprotocol/client",
);
const options = isOld ? {} : { versionNegotiation: { mode } };
const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { "X-API-Key": key } } });
const client = new Client({ name: "tenant", version: "1" }, { capabilities: {}, ...options });
await client.connect(transport);
const { tools } = await client.listTools();
const results = [];
for (const [name, given] of JSON.parse(calls)) {
  try {
    results.push(await client.callTool({ name, arguments: given }));
  } catch (error) {
    results.push({ error: String(error.message), code: error.code });
  }
}
const seen = { tools: tools.map((tool) => tool.name), instructions: client.getInstructions() ?? null, results };
await transport.terminateSession?.();
await client.close();
await print(seen);
