// Uses every feature of a workshop once with a client of either TypeScript SDK; prints the results as JSON.
//
//   node client_run.mjs v1|v2 URL ROOM PREFIX JOURNAL
//
// Version 1 uses the legacy era, version 2 the modern one. The same features as in `feature_checks.py`, except
// that these clients drop progress that arrives in one read with the result, so progress is requested only of
// the tool that waits between its steps.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { randomUUID } from "node:crypto";

const judge = createRequire(`${process.env.JUDGES}/`);
const [version, url, room, prefix, journal] = process.argv.slice(2);
const isModern = version === "v2";
const TIMEOUT_MS = 10_000;
const uri = `memo://${room}`;

// -- the client ----------------------------------------------------------------------------------

const events = [];
let waiting = [];
let answers = [];
const hear = (...event) => {
  events.push(event);
  waiting = waiting.filter((check) => !check());
};
const until = (isWanted) =>
  new Promise((resolve, reject) => {
    if (isWanted()) return resolve();
    const timer = setTimeout(() => reject(new Error(`only received ${JSON.stringify(events)}`)), TIMEOUT_MS);
    waiting.push(() => isWanted() && (clearTimeout(timer), resolve(), true));
  });

const elicit = ({ params }) => {
  hear("elicitation", params.message, params.requestedSchema);
  return answers.shift();
};
const sample = ({ params }) => {
  hear("sampling", params.messages, params.systemPrompt, params.maxTokens, params.temperature);
  return { role: "assistant", content: { type: "text", text: "old pond" }, model: "basho" };
};
const KINDS = {
  "notifications/tools/list_changed": () => hear("changed", "tool"),
  "notifications/prompts/list_changed": () => hear("changed", "prompt"),
  "notifications/resources/list_changed": () => hear("changed", "resource"),
  "notifications/resources/updated": ({ params }) => hear("updated", params.uri),
  "notifications/message": ({ params }) => hear("log", params.level, params.data, params.logger),
};

async function connect() {
  const capabilities = { elicitation: { form: {} }, sampling: {} };
  const information = { name: `sdk-${version}`, version: "1" };
  let opened;
  const listening = new Promise((resolve) => (opened = resolve));
  const watched = async (address, init = {}) => {
    const response = await fetch(address, init);
    if (init.method === "GET" && response.ok) opened();
    return response;
  };
  if (isModern) {
    const { Client, StreamableHTTPClientTransport } = judge("@modelcontextprotocol/client");
    const client = new Client(information, { capabilities, versionNegotiation: { mode: "auto" } });
    client.setRequestHandler("elicitation/create", elicit);
    client.setRequestHandler("sampling/createMessage", sample);
    for (const [method, handler] of Object.entries(KINDS)) client.setNotificationHandler(method, handler);
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    return client;
  }
  const { Client } = judge("@modelcontextprotocol/sdk/client/index.js");
  const { StreamableHTTPClientTransport } = judge("@modelcontextprotocol/sdk/client/streamableHttp.js");
  const types = judge("@modelcontextprotocol/sdk/types.js");
  const client = new Client(information, { capabilities });
  client.setRequestHandler(types.ElicitRequestSchema, elicit);
  client.setRequestHandler(types.CreateMessageRequestSchema, sample);
  for (const schema of Object.values(types)) {
    const handler = KINDS[schema?.shape?.method?.value];
    if (handler) client.setNotificationHandler(schema, handler);
  }
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { fetch: watched }));
  await listening;
  return client;
}

const client = await connect();
const call = (name, given = {}, options = {}, meta = undefined) => {
  const params = { name: prefix + name, arguments: given, ...(meta ? { _meta: meta } : {}) };
  return isModern ? client.callTool(params, options) : client.callTool(params, undefined, options);
};
const text = (result) => result.content[0].text;
const onprogress = ({ progress, total, message }) => hear("progress", progress, total ?? null, message ?? null);
const outcome = (work) => work.then(plain, (error) => error.code);
const plain = ({ _meta = {}, resultType, ...found }) => {
  const added = ["dev.hubbub/", "hubbub/", "io.modelcontextprotocol/"];
  const kept = Object.entries(_meta).filter(([key]) => !added.some((prefix) => key.startsWith(prefix)));
  return kept.length ? { ...found, _meta: Object.fromEntries(kept) } : found;
};
async function traced(name, given, options, meta) {
  events.length = 0;
  const result = await call(name, given, options, meta);
  // List changes belong to no call.
  const ofCall = events.filter(([kind]) => kind !== "changed" && (kind !== "progress" || options?.onprogress));
  return [...ofCall, text(result)];
}

// -- features ------------------------------------------------------------------------------------

async function listed(method, member) {
  const found = [];
  let cursor;
  do {
    const page = await client[method](cursor === undefined ? {} : { cursor });
    found.push(...page[member]);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return found;
}
const allTools = () => listed("listTools", "tools");
const ownTools = async () => {
  const found = (await allTools()).filter((tool) => tool.name.startsWith(prefix) && !tool.name.includes("hub."));
  return Object.fromEntries(found.map((tool) => [tool.name.slice(prefix.length), tool]));
};

const features = {
  async tools() {
    const found = await ownTools();
    const texts = Array.from({ length: 5 }, (_, number) => `text ${number}`);
    const many = await Promise.all(texts.map((each) => call("echo", { text: each })));
    return {
      names: Object.keys(found),
      echo: { ...plain(found.echo), name: "echo" },
      called: { isError: false, ...plain(await call("echo", { text: "grüß dich\n\u0000 🎲" })) },
      gallery: (await call("gallery")).content,
      failing: plain(await call("failing")),
      unknown: await outcome(call("missing")),
      many: many.every((result, index) => text(result) === texts[index]),
    };
  },
  async "structured results"() {
    const found = await ownTools();
    const [added, series] = [await call("add", { a: 2, b: 3 }), await call("series", { count: 3 })];
    return {
      schemas: [found.add.outputSchema, found.series.outputSchema],
      add: [added.structuredContent, text(added)],
      series: series.structuredContent,
    };
  },
  progress: () => traced("slow", { steps: 5, pause_s: 0.02 }, { onprogress }),
  async cancellation() {
    const token = randomUUID();
    const controller = new AbortController();
    const outcome = call("wait", { token }, { signal: controller.signal, onprogress }).then(
      () => false,
      () => true,
    );
    await until(() => events.some(([kind]) => kind === "progress"));
    controller.abort("changed my mind");
    const wasCancelled = await outcome;
    const lines = () => readFileSync(journal, "utf8").split("\n").filter((line) => line.includes(token));
    const deadline = Date.now() + TIMEOUT_MS;
    while (lines().length < 3 && Date.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 10));
    return { was_cancelled: wasCancelled, journal: lines(), afterwards: text(await call("echo", { text: "still there" })) };
  },
  async logs() {
    const seen = {};
    for (const level of ["warning", "debug"]) {
      if (!isModern) await client.setLoggingLevel(level);
      seen[level] = await traced("chatty", {}, {}, isModern ? { "io.modelcontextprotocol/logLevel": level } : undefined);
    }
    return seen;
  },
  async elicitation() {
    const accept = (content) => ({ action: "accept", content });
    answers = [accept({ name: "Ada", age: 36 }), accept({ sure: true })];
    const accepted = await traced("interview");
    answers = [{ action: "decline" }];
    return { accepted, declined: await traced("interview") };
  },
  async sampling() {
    const haiku = await traced("haiku", { topic: "frogs" });
    answers = [{ action: "accept", content: { name: "Ada", age: 36 } }];
    return { haiku, both: await traced("both") };
  },
  async resources() {
    const read = async (name) => (await client.readResource({ uri: `${uri}/${name}` })).contents;
    const own = (entry) => (entry.uri ?? entry.uriTemplate).startsWith(`${uri}/`) && !entry.uri?.includes("added");
    return {
      listed: (await listed("listResources", "resources")).filter(own).map(plain),
      templates: (await listed("listResourceTemplates", "resourceTemplates")).filter(own).map(plain),
      static: await read("static"),
      bytes: await read("bytes"),
      person: await read("people/ada"),
      missing: await outcome(client.readResource({ uri: `${uri}/nowhere` })),
      watched: await watch(`${uri}/watched`, read),
    };
  },
  async prompts() {
    const got = await client.getPrompt({ name: `${prefix}greeting`, arguments: { name: "Ada", style: "formal" } });
    return {
      listed: (await listed("listPrompts", "prompts"))
        .filter(({ name }) => name === `${prefix}greeting`)
        .map((entry) => ({ ...plain(entry), name: "greeting" })),
      got: [got.description, got.messages],
      missing: await outcome(client.getPrompt({ name: `${prefix}nowhere` })),
    };
  },
  async completion() {
    const prompt = { type: "ref/prompt", name: `${prefix}greeting` };
    const template = { type: "ref/resource", uri: `${uri}/people/{name}` };
    const complete = async (params) => (await client.complete(params)).completion;
    const context = { arguments: { name: "ada" } };
    return {
      prompt: await complete({ ref: prompt, argument: { name: "style", value: "f" } }),
      template: await complete({ ref: template, argument: { name: "name", value: "a" } }),
      context: (await complete({ ref: prompt, argument: { name: "style", value: "p" }, context })).values,
    };
  },
  async "list changes"() {
    const wanted = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true };
    const listening = isModern ? await client.listen(wanted) : undefined;
    const seen = {};
    for (const kind of ["tool", "prompt", "resource"]) seen[kind] = await grown(kind);
    await listening?.close();
    return seen;
  },
};

async function watch(watched, read) {
  const listening = isModern ? await client.listen({ resourceSubscriptions: [watched] }) : undefined;
  if (!isModern) await client.subscribeResource({ uri: watched });
  events.length = 0;
  const touched = text(await call("touch"));
  await until(() => events.some(([kind]) => kind === "updated"));
  const [entry] = await read("watched");
  if (isModern) await listening.close();
  else await client.unsubscribeResource({ uri: watched });
  events.length = 0;
  await call("touch");
  await call("echo", { text: "so that every earlier notification has arrived" });
  const honored = isModern ? { resourceSubscriptions: [watched] } : null;
  return { is_new: entry.text === touched, honored, afterwards: [...events] };
}

// A hub may still notify about a change of an earlier run, but not every time.
const GROW_ATTEMPTS = 3;

async function grown(kind) {
  for (let attempt = 1; ; attempt++) {
    const seen = await grownOnce(kind);
    if (seen.received.length === 1 || attempt === GROW_ATTEMPTS) return seen;
  }
}

async function grownOnce(kind) {
  const name = `new_${randomUUID().slice(0, 8)}`;
  const lists = { tool: allTools, prompt: () => listed("listPrompts", "prompts"), resource: () => listed("listResources", "resources") };
  const uses = {
    tool: async () => text(await client.callTool({ name, arguments: { who: "Ada" } })),
    prompt: async () => (await client.getPrompt({ name })).messages[0].content.text,
    resource: async () => (await client.readResource({ uri: `${uri}/added/${name}` })).contents[0].text,
  };
  events.length = 0;
  await call("grow", { kind, name });
  await until(() => events.some(([what, which]) => what === "changed" && which === kind));
  const received = [...new Set(events.map(([, which]) => which))];
  // The last notification may be about an older change, so check after each.
  for (;;) {
    const before = events.length;
    if ((await lists[kind]()).some((entry) => entry.name === name)) break;
    await until(() => events.length > before);
  }
  return { received, is_listed: true, used: (await uses[kind]()).replace(name, "it") };
}

// -- the run -------------------------------------------------------------------------------------

const seen = { version: isModern ? client.getNegotiatedProtocolVersion() : "2025-11-25" };
for (const [name, feature] of Object.entries(features)) {
  events.length = 0;
  try {
    seen[name] = await feature();
  } catch (error) {
    seen[name] = { failed: `${error.stack}; received until then: ${JSON.stringify(events)}` };
  }
}
await client.close();
await new Promise((resolve) => process.stdout.write(JSON.stringify(seen), resolve));
