// The TypeScript SDK's client with its own OAuth code.
//   node oauth_client.mjs URL REDIRECT_URI CLIENT_NAME
// Prints {"authorize": URL} whenever a person has to log in, and reads the parameters of the authorization response. Prints
// {"connected": true}, then answers each line of stdin: {"list": true} or {"call": NAME, "arguments": {...}}.
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";

const judge = createRequire(join(process.env.JUDGES, "judges.cjs"));
const { Client, StreamableHTTPClientTransport, UnauthorizedError } = judge("@modelcontextprotocol/client");

const [url, redirectUrl, clientName] = process.argv.slice(2);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const read = async () => JSON.parse((await lines.next()).value);
const print = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

const kept = {};
const provider = {
  redirectUrl,
  clientMetadata: {
    client_name: clientName,
    redirect_uris: [redirectUrl],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  },
  state: () => (kept.state = randomUUID()),
  clientInformation: () => kept.client,
  saveClientInformation: (client) => void (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => void (kept.tokens = tokens),
  redirectToAuthorization: (target) => print({ authorize: String(target) }),
  saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
  codeVerifier: () => kept.verifier,
  saveDiscoveryState: (state) => void (kept.discovery = state),
  discoveryState: () => kept.discovery,
  invalidateCredentials: (scope) => {
    for (const name of scope === "all" ? ["client", "tokens", "verifier", "discovery"] : [scope]) delete kept[name];
  },
};

let client, transport;
async function connect() {
  client = new Client({ name: "assistant", version: "1" }, { capabilities: {}, versionNegotiation: { mode: "auto" } });
  transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
  await client.connect(transport);
}

// The SDK leaves it to the program to repeat what needed a login.
async function withLogin(work) {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    const given = await read();
    if (given.state !== kept.state) throw new Error("the state differs");
    await transport.finishAuth(new URLSearchParams(given));
    return await work();
  }
}

await withLogin(connect);
print({ connected: true });
for (let line = await lines.next(); !line.done; line = await lines.next()) {
  const { call, arguments: given } = JSON.parse(line.value);
  try {
    if (call) print({ result: await withLogin(() => client.callTool({ name: call, arguments: given })) });
    else print({ tools: (await withLogin(() => client.listTools())).tools.map((tool) => tool.name) });
  } catch (error) {
    print({ result: { error: String(error.message), code: error.code ?? null }, tools: [] });
  }
}
process.exit(0);
