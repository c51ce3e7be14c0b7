// The studio for both TypeScript SDKs: same tools, resources and prompts; `tests.interop.studio_client` visits it.
//
// `sdk` brings what the two name alike. `context` tells what a handler gets, `ask` how it asks: version 1
// sends a question and waits, version 2 answers with it and is called again.
import { createRequire } from "node:module";
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";

// `import` looks for packages beside the script; the folder of the judges is told instead.
export const judge = createRequire(`${process.env.JUDGES}/`);
const { z } = judge("zod");

const seen = { started: 0, cancelled: 0 };
const watched = { version: 0 };
const added = [];
const PIXEL = "iVBORw0KGgo=";
const text = (value) => ({ content: [{ type: "text", text: value }] });
const structured = (value) => ({ ...text(JSON.stringify(value)), structuredContent: value });
const starting = (values) => (value) => values.filter((one) => one.startsWith(value));

export const questions = {
  who: {
    message: "Who are you?",
    requestedSchema: {
      type: "object",
      properties: { name: { type: "string" }, age: { type: "integer", default: 0 } },
      required: ["name"],
    },
  },
  haiku: (topic) => ({
    messages: [{ role: "user", content: { type: "text", text: `A haiku about ${topic}` } }],
    maxTokens: 64,
    systemPrompt: "You are a poet",
    temperature: 0.5,
  }),
};

export function furnish(server, { sdk, context, ask, changed }) {
  const tool = (name, inputSchema, work, outputSchema) => {
    const shape = (fields) => (fields === undefined ? undefined : sdk.wantsObjects ? z.object(fields) : fields);
    const config = { description: `The tool ${name}.`, inputSchema: shape(inputSchema), outputSchema: shape(outputSchema) };
    return server.registerTool(name, config, (given, extra) => work(given, context(extra), extra));
  };
  const greet = (name) => tool(name, { who: z.string() }, ({ who }) => text(`${name} greets ${who}`));

  tool("echo", { text: z.string() }, (given) => text(given.text));
  const sum = { total: z.number().int(), terms: z.array(z.number().int()) };
  const terms = { a: z.number().int(), b: z.number().int().default(1) };
  tool("add", terms, ({ a, b }) => structured({ total: a + b, terms: [a, b] }), sum);
  tool("gallery", {}, () => ({
    content: [
      { type: "text", text: "all kinds" },
      { type: "image", data: PIXEL, mimeType: "image/png" },
      { type: "audio", data: "UklGRg==", mimeType: "audio/wav" },
      { type: "resource", resource: { uri: "memo://inside", mimeType: "text/plain", text: "inside" } },
      { type: "resource_link", uri: "memo://static", name: "static" },
    ],
  }));
  tool("failing", {}, () => {
    throw new Error("the well is dry");
  });
  tool("slow", { steps: z.number().int() }, async ({ steps }, { progress }) => {
    for (let step = 1; step <= steps; step++) await progress(step, steps, `step ${step}`);
    return text(`${steps} steps`);
  });
  tool("wait_forever", {}, async (_, { progress, signal }) => {
    seen.started++;
    const aborted = new Promise((resolve) => signal.addEventListener("abort", resolve));
    await progress(1, undefined, "waiting");
    if (!signal.aborted) await aborted;
    seen.cancelled++;
    throw new Error("cancelled");
  });
  const counted = { started: z.number().int(), cancelled: z.number().int() };
  tool(
    "counts",
    { cancelled: z.number().int().default(0) },
    async ({ cancelled }) => {
      for (let tries = 0; seen.cancelled < cancelled && tries < 5000; tries++) {
        await new Promise((resolve) => setTimeout(resolve, 2));
      }
      return structured({ ...seen });
    },
    counted,
  );

  tool("ask_name", {}, (_, __, extra) =>
    ask(extra, "elicit", questions.who, ({ content }) => text(`${content.name} is ${content.age}`)),
  );
  tool("sample_haiku", { topic: z.string() }, ({ topic }, _, extra) =>
    ask(extra, "createMessage", questions.haiku(topic), ({ model, content }) => text(`${model}: ${content.text}`)),
  );
  tool("list_roots", {}, (_, __, extra) =>
    ask(extra, "listRoots", undefined, ({ roots }) => text(roots.map((root) => root.uri).join(" "))),
  );

  tool("register_tool", { name: z.string() }, async ({ name }) => {
    added.push(name);
    greet(name);
    changed.tools?.();
    return text(name);
  });
  tool("touch_resource", {}, async () => {
    watched.version++;
    await changed.resource(server, "memo://watched");
    return text(`version ${watched.version}`);
  });
  added.forEach(greet);

  const memo = (name, mimeType, extra, read) =>
    server.registerResource(name, `memo://${name}`, { mimeType, ...extra }, (uri) => ({
      contents: [{ uri: uri.href, mimeType, ...read() }],
    }));
  memo("static", "text/plain", { title: "A memo" }, () => ({ text: "static text" }));
  memo("bytes", "image/png", {}, () => ({ blob: PIXEL }));
  memo("watched", "text/plain", {}, () => ({ text: `version ${watched.version}` }));
  const names = starting(["ada", "alan", "grace"]);
  const template = new sdk.ResourceTemplate("memo://people/{name}", { list: undefined, complete: { name: names } });
  server.registerResource("person", template, { mimeType: "text/plain" }, (uri, { name }) => ({
    contents: [{ uri: uri.href, mimeType: "text/plain", text: `about ${name}` }],
  }));

  // Version 1 looks for what completes outside, version 2 inside of what may be left out.
  const styles = starting(["formal", "friendly", "plain"]);
  const style = sdk.wantsObjects
    ? sdk.completable(z.string(), styles).optional()
    : sdk.completable(z.string().optional(), styles);
  const argsSchema = { name: z.string(), style };
  server.registerPrompt(
    "greeting",
    { title: "Greeting", argsSchema: sdk.wantsObjects ? z.object(argsSchema) : argsSchema },
    (given) => ({
      messages: [
        { role: "user", content: { type: "text", text: `Greet ${given.name} in a ${given.style ?? "plain"} style` } },
      ],
    }),
  );
  return server;
}

export const implementation = { name: "studio", version: "1.2.3" };
export const options = {
  instructions: "Ask for an echo.",
  capabilities: { resources: { subscribe: true, listChanged: true }, tools: { listChanged: true }, logging: {} },
};

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
