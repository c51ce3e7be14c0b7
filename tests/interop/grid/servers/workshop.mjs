// The workshop of `workshop.py` for both TypeScript SDKs: same tools, resources, prompts, same order.
//
// `furnish` sets every request handler by hand, on the part that both SDKs have. `sdk.on` registers one,
// `sdk.context` tells what a handler gets: how it reports, logs and asks, and what came with the request.
import { createRequire } from "node:module";
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { appendFileSync, existsSync, readFileSync } from "node:fs";

// `import` looks for packages beside the script; the folder of the judges is told instead.
export const judge = createRequire(`${process.env.JUDGES}/`);
export const [transport, roomName, journal] = process.argv.slice(2);

const ROOM = `memo://${roomName}`;
const WATCHED = `${ROOM}/watched`;
const PIXEL = "iVBORw0KGgo=";
const versions = { [WATCHED]: 0 };

export const implementation = { name: "workshop", version: "1.2.3", title: "The workshop" };
export const options = {
  instructions: "Knock before you enter.",
  capabilities: {
    tools: { listChanged: true },
    prompts: { listChanged: true },
    resources: { subscribe: true, listChanged: true },
    logging: {},
    completions: {},
  },
};

export const write = (kind, name) => appendFileSync(journal, `${kind} ${name}\n`);
const added = (kind) =>
  (existsSync(journal) ? readFileSync(journal, "utf8").split("\n") : [])
    .filter((line) => line.startsWith(`${kind} `))
    .map((line) => line.slice(kind.length + 1));

const text = (value, more = {}) => ({ content: [{ type: "text", text: value }], ...more });
const spaced = (value) => JSON.stringify(value, null, 1).replace(/\n */g, " ").replace(/([[{]) /g, "$1").replace(/ ([\]}])/g, "$1");
const structured = (value) => text(spaced(value), { structuredContent: value });

const PERSON = {
  type: "object",
  properties: { name: { type: "string" }, age: { type: "integer", default: 0 } },
  required: ["name"],
};
const SURE = { type: "object", properties: { sure: { type: "boolean" } }, required: ["sure"] };
const form = (message, requestedSchema) => ({ method: "elicitation/create", params: { mode: "form", message, requestedSchema } });
const poem = (topic) => ({
  method: "sampling/createMessage",
  params: {
    messages: [{ role: "user", content: { type: "text", text: `A haiku about ${topic}` } }],
    maxTokens: 64,
    systemPrompt: "You are a poet",
    temperature: 0.5,
  },
});
const needs = (requestState, inputRequests) => ({ resultType: "input_required", inputRequests, requestState });

// -- tools ---------------------------------------------------------------------------------------

const tools = {
  echo: [{ text: "string" }, ({ text: given }) => text(given, { _meta: { "workshop/length": [...given].length } })],
  add: [{ a: "integer", b: "integer" }, ({ a, b }) => structured({ total: a + b, terms: [a, b] })],
  series: [
    { count: "integer" },
    ({ count }, { isModern }) => {
      const numbers = Array.from({ length: count }, (_, number) => number);
      return structured(isModern ? numbers : { result: numbers });
    },
  ],
  gallery: [
    {},
    () => ({
      content: [
        { type: "text", text: "all kinds" },
        { type: "image", data: PIXEL, mimeType: "image/png" },
        { type: "audio", data: "UklGRg==", mimeType: "audio/wav" },
        { type: "resource", resource: { uri: `${ROOM}/inside`, mimeType: "text/plain", text: "inside" } },
        { type: "resource_link", uri: `${ROOM}/static`, name: "static" },
      ],
    }),
  ],
  failing: [{}, () => text("the well is dry", { isError: true })],
  slow: [
    { steps: "integer" },
    async ({ steps, pause_s = 0 }, { progress }) => {
      for (let step = 1; step <= steps; step++) {
        await progress(step, steps, `step ${step}`);
        await new Promise((resolve) => setTimeout(resolve, pause_s * 1000));
      }
      return text(`${steps} steps`);
    },
  ],
  chatty: [
    {},
    async (_, { progress, log }) => {
      for (const [index, level] of ["debug", "info", "warning", "error"].entries()) {
        await log(level, { said: level }, "workshop");
        await progress(index + 1, 4);
      }
      return text("said");
    },
  ],
  wait: [
    { token: "string" },
    async ({ token }, { progress, signal }) => {
      write("started", token);
      const aborted = new Promise((resolve) => signal.addEventListener("abort", resolve));
      await progress(1, undefined, "waiting");
      if (!signal.aborted) await aborted;
      write("cancelled", token);
      throw new Error("cancelled");
    },
  ],
  interview: [
    {},
    async (_, context) => {
      const { isModern, progress, elicit, answers, state } = context;
      let name, sure;
      if (!isModern) {
        const who = await elicit(form("Who are you?", PERSON).params);
        if (who.action !== "accept") return text(`${who.action}, then`);
        await progress(1, 2, "known");
        name = who.content.name;
        sure = await elicit(form(`Are you sure, ${name}?`, SURE).params);
      } else if (state === undefined) {
        return needs("who", { who: form("Who are you?", PERSON) });
      } else if (state === "who") {
        const who = answers.who;
        if (who.action !== "accept") return text(`${who.action}, then`);
        await progress(1, 2, "known");
        name = who.content.name;
        return needs(`sure ${name}`, { sure: form(`Are you sure, ${name}?`, SURE) });
      } else {
        name = state.slice("sure ".length);
        sure = answers.sure;
      }
      await progress(2, 2, "sure");
      return text(`${name} is ${sure.content.sure ? "sure" : "not sure"}`);
    },
  ],
  haiku: [
    { topic: "string" },
    async ({ topic }, { isModern, sample, answers }) => {
      if (isModern && answers === undefined) return needs("haiku", { poem: poem(topic) });
      const answer = isModern ? answers.poem : await sample(poem(topic).params);
      return text(`${answer.model}: ${answer.content.text}`);
    },
  ],
  both: [
    {},
    async (_, { isModern, elicit, sample, answers }) => {
      const questions = { who: form("Who are you?", PERSON), poem: poem("frogs") };
      if (isModern && answers === undefined) return needs("both", questions);
      const [who, answer] = isModern
        ? [answers.who, answers.poem]
        : await Promise.all([elicit(questions.who.params), sample(questions.poem.params)]);
      return text(`${who.content.name} reads ${answer.content.text}`);
    },
  ],
  touch: [
    {},
    async (_, { updated }) => {
      versions[WATCHED]++;
      await updated(WATCHED);
      return text(`version ${versions[WATCHED]}`);
    },
  ],
  grow: [
    { kind: "string", name: "string" },
    async ({ kind, name }, { changed }) => {
      write(kind, name);
      await changed[kind]();
      return text(name);
    },
  ],
  whose: [{}, (_, { capabilities }) => structured({ capabilities: Object.keys(capabilities ?? {}).sort(), meta: {} })],
};

const schema = (fields) => ({
  type: "object",
  properties: Object.fromEntries(Object.entries(fields).map(([name, type]) => [name, { type }])),
  required: Object.keys(fields),
});
const NUMBERS = { type: "array", items: { type: "integer" } };

function describe(name, { isModern }) {
  const title = name[0].toUpperCase() + name.slice(1);
  const tool = { name, title, description: `The tool ${name}.`, inputSchema: schema(tools[name]?.[0] ?? { who: "string" }) };
  if (name === "add") tool.outputSchema = { type: "object", properties: { total: { type: "integer" }, terms: NUMBERS }, required: ["total", "terms"] };
  if (name === "series") tool.outputSchema = isModern ? NUMBERS : { type: "object", properties: { result: NUMBERS }, required: ["result"] };
  if (name === "echo") {
    tool.annotations = { title: "Echo", readOnlyHint: true, openWorldHint: false };
    tool._meta = { "workshop/shelf": 3 };
  }
  return tool;
}

// -- handlers ------------------------------------------------------------------------------------

const watchers = new Map(); // the URIs that each legacy session watches, by its server

// Tells every session that watches it, whichever one changed it.
export const tellWatchers = (uri) =>
  Promise.all([...watchers].filter(([, uris]) => uris.has(uri)).map(([server]) => server.sendResourceUpdated({ uri })));

export function furnish(server, sdk) {
  const watching = new Set();
  watchers.set(server, watching);
  const on = (method, work) => sdk.on(server, method, (params, extra) => work(params, sdk.context(extra)));
  const missing = (code, message) => {
    throw new sdk.Failure(code, message);
  };

  on("tools/list", ({ cursor }, context) => {
    const names = Object.keys(tools);
    const page = Number(cursor ?? 0);
    const listed = [names.slice(0, 7), names.slice(7), added("tool")][page];
    return { tools: listed.map((name) => describe(name, context)), ...(page < 2 ? { nextCursor: String(page + 1) } : {}) };
  });
  on("tools/call", ({ name, arguments: given = {} }, context) => {
    write("called", `${name} ${spaced(given)}`);
    if (tools[name]) return tools[name][1](given, context);
    if (added("tool").includes(name)) return text(`${name} greets ${given.who}`);
    return missing(-32602, `There is no tool ${name}`);
  });

  on("resources/list", () => ({
    resources: [
      { uri: `${ROOM}/static`, name: "static", title: "A memo", mimeType: "text/plain", size: 11 },
      { uri: `${ROOM}/bytes`, name: "bytes", mimeType: "image/png" },
      { uri: WATCHED, name: "watched", mimeType: "text/plain" },
      ...added("resource").map((name) => ({ uri: `${ROOM}/added/${name}`, name, mimeType: "text/plain" })),
    ],
  }));
  on("resources/templates/list", () => ({
    resourceTemplates: [{ uriTemplate: `${ROOM}/people/{name}`, name: "person", mimeType: "text/plain" }],
  }));
  on("resources/read", ({ uri }, { isModern }) => {
    const known = { [`${ROOM}/static`]: "static text", [WATCHED]: `version ${versions[WATCHED]}` };
    const named = [`${ROOM}/people/`, `${ROOM}/added/`].some((start) => uri.startsWith(start));
    if (uri === `${ROOM}/bytes`) return { contents: [{ uri, mimeType: "image/png", blob: PIXEL }] };
    if (known[uri] === undefined && !named) return missing(isModern ? -32602 : -32002, `There is no resource ${uri}`);
    return { contents: [{ uri, mimeType: "text/plain", text: known[uri] ?? `about ${uri.split("/").at(-1)}` }] };
  });
  on("resources/subscribe", ({ uri }) => {
    write("subscribed", uri);
    watching.add(uri);
    return {};
  });
  on("resources/unsubscribe", ({ uri }) => {
    write("unsubscribed", uri);
    watching.delete(uri);
    return {};
  });

  on("prompts/list", () => ({
    prompts: [
      {
        name: "greeting",
        title: "Greeting",
        description: "Greet someone.",
        arguments: [
          { name: "name", description: "Whom", required: true },
          { name: "style", required: false },
        ],
      },
      ...added("prompt").map((name) => ({ name })),
    ],
  }));
  on("prompts/get", ({ name, arguments: given = {} }) => {
    if (name !== "greeting" && !added("prompt").includes(name)) return missing(-32602, `There is no prompt ${name}`);
    const said = name === "greeting" ? `Greet ${given.name} in a ${given.style ?? "plain"} style` : `This is ${name}`;
    return {
      description: `The prompt ${name}`,
      messages: [
        { role: "user", content: { type: "text", text: said } },
        { role: "assistant", content: { type: "image", data: PIXEL, mimeType: "image/png" } },
      ],
    };
  });
  on("completion/complete", ({ argument, context }) => {
    const known = { style: ["formal", "friendly", "plain"], name: ["ada", "alan", "grace"] }[argument.name];
    let values = known.filter((value) => value.startsWith(argument.value));
    if (context?.arguments) values = values.map((value) => `${value} for ${context.arguments.name}`);
    return { completion: { values, total: values.length, hasMore: false } };
  });
  return server;
}

// Serves legacy sessions, each with a server and a transport of its own; the handler of a request.
export function sessions(makeServer, Transport) {
  const open = new Map();
  return async (request, response, body) => {
    let transport = open.get(request.headers["mcp-session-id"]);
    if (transport === undefined) {
      const onsessioninitialized = (id) => void open.set(id, transport);
      transport = new Transport({ sessionIdGenerator: randomUUID, onsessioninitialized });
      await makeServer().connect(transport);
    }
    await transport.handleRequest(request, response, body);
  };
}

export function listen(handle) {
  const http = createServer((request, response) => {
    handle(request, response).catch((error) => {
      console.error(error);
      response.destroy();
    });
  });
  http.listen(0, "127.0.0.1", () => console.log(http.address().port));
}
