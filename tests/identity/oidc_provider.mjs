// Runs `oidc-provider`, with its own pages for login and consent, on a free port of this machine.
//   node oidc_provider.mjs OPTIONS
// OPTIONS is JSON: {people, tls: {certificate, key} | null, clients, registration}. Prints {"issuer": ...} when it listens.
// Each line on stdin is a command, answered by one line: {"command": "rotate_keys" | "go_down" | "come_up"} or
// {"command": "set_person", name, claims}, with claims of null for a person who is removed. Ends with stdin.
//
// Members of a client's registration that are ours: `access_token_format` ("jwt" or "opaque"), `access_token_ttl`
// (seconds) and `require_dpop_nonce` (boolean).
import { randomBytes, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

console.info = console.error; // stdout is for answers
const require = createRequire(pathToFileURL(join(process.env.JUDGES, "main.js")));
const { Provider } = await import(pathToFileURL(require.resolve("oidc-provider")).href);
const { generateKeyPair, exportJWK } = await import(pathToFileURL(require.resolve("jose")).href);

const options = JSON.parse(process.argv[2]);
const { people, tls } = options;
const SCOPES = ["mcp:tools", "mcp:admin", "notes:read", "notes:write"];
const TOKEN_TTL_S = 600;
const COOKIE_KEYS = [randomUUID()];
const DPOP_SECRET = randomBytes(32);

async function newKeys() {
  const keys = [];
  for (const alg of ["RS256", "ES256"]) {
    const { privateKey } = await generateKeyPair(alg, { extractable: true });
    keys.push({ ...(await exportJWK(privateKey)), alg, use: "sig", kid: randomUUID() });
  }
  return { keys };
}

function claimsOf(accountId) {
  const { email, name, tenant, groups } = people[accountId];
  return { sub: accountId, email, email_verified: true, name, tenant, groups };
}

function configure(jwks) {
  return {
    jwks,
    clients: options.clients,
    extraClientMetadata: { properties: ["access_token_format", "access_token_ttl", "require_dpop_nonce"] },
    cookies: { keys: COOKIE_KEYS },
    scopes: ["openid", "offline_access", ...SCOPES],
    claims: { openid: ["sub"], profile: ["name", "tenant", "groups"], email: ["email", "email_verified"] },
    conformIdTokenClaims: false, // so that the claims of a scope are in the ID token too
    pkce: { required: () => true },
    issueRefreshToken: async (ctx, client) => client.grantTypeAllowed("refresh_token"),
    rotateRefreshToken: true,
    findAccount: async (ctx, accountId) => people[accountId] && { accountId, claims: async () => claimsOf(accountId) },
    extraTokenClaims: async (ctx, token) => {
      if (!token.accountId) return undefined;
      const { email, tenant, groups } = people[token.accountId];
      return { email, tenant, groups };
    },
    clientBasedCORS: () => true,
    features: {
      devInteractions: { enabled: true },
      clientCredentials: { enabled: true },
      introspection: { enabled: true },
      revocation: { enabled: true },
      registration: { enabled: options.registration, issueRegistrationAccessToken: false },
      dPoP: {
        enabled: true,
        nonceSecret: DPOP_SECRET,
        requireNonce: (ctx) => Boolean(ctx.oidc.client?.require_dpop_nonce),
      },
      rpInitiatedLogout: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: (ctx, client, oneOf) => oneOf,
        useGrantedResource: () => true,
        getResourceServerInfo: (ctx, resource, client) => ({
          scope: SCOPES.join(" "),
          audience: resource,
          accessTokenFormat: client.access_token_format ?? "jwt",
          accessTokenTTL: client.access_token_ttl ?? TOKEN_TTL_S,
          jwt: { sign: { alg: "ES256" } },
        }),
      },
    },
    ttl: { AccessToken: TOKEN_TTL_S, Interaction: 600, Session: 3600, Grant: 3600, RefreshToken: 3600, IdToken: 600, AuthorizationCode: 60 },
  };
}

// A new provider with new keys takes the place of the old one: what it stored is in the memory of this process.
let handle = null;
async function startProvider(issuer) {
  handle = new Provider(issuer, configure(await newKeys())).callback();
}

const listener = (request, response) => handle(request, response);
const server = tls
  ? createTlsServer({ cert: readFileSync(tls.certificate), key: readFileSync(tls.key) }, listener)
  : createServer(listener);
// A provider that is down ends each connection at once; its port stays taken, so that no other program gets it.
let isDown = false;
server.on("connection", (socket) => isDown && socket.destroy());

await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const { port } = server.address();
const issuer = `${tls ? "https" : "http"}://127.0.0.1:${port}`;
await startProvider(issuer);
const answer = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
answer({ issuer });

const commands = {
  rotate_keys: () => startProvider(issuer),
  go_down: () => {
    isDown = true;
    server.closeAllConnections();
  },
  come_up: () => void (isDown = false),
  set_person: ({ name, claims }) => void (claims ? (people[name] = claims) : delete people[name]),
};
for await (const line of createInterface({ input: process.stdin })) {
  const given = JSON.parse(line);
  await commands[given.command](given);
  answer({ done: true });
}
process.exit(0);
