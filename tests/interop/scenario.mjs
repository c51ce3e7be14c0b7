// Everything that a TypeScript client does with our server, with either SDK.
//
// The script of each SDK connects a client and subscribes to notifications; this file uses the
// common part of their API and collects the results. It asserts nothing: the results are
// printed as JSON, and the test compares them.
import { createRequire } from "node:module";
import { join } from "node:path";

export const judge = createRequire(join(process.env.JUDGES, "judges.cjs"));

export class NotificationRecorder {
  received = [];
  #waiting = [];

  record(kind, params) {
    this.received.push({ kind, params });
    this.#waiting = this.#waiting.filter((check) => !check());
  }

  kinds() {
    return this.received.map((note) => note.kind);
  }

  waitFor(kind) {
    const found = () => this.received.find((note) => note.kind === kind);
    return new Promise((resolve, reject) => {
      if (found()) return resolve(found());
      const timer = setTimeout(() => reject(new Error(`never received ${kind}`)), 10_000);
      this.#waiting.push(() => found() && (clearTimeout(timer), resolve(found()), true));
    });
  }
}

export const answers = {
  elicit: (asked) => (params) => {
    asked.push(params);
    return { action: "accept", content: { name: `Ada ${asked.length}`, age: 36 } };
  },
  sample: (asked) => (params) => {
    asked.push(params);
    return { role: "assistant", content: { type: "text", text: "old pond" }, model: "basho" };
  },
  roots: () => ({ roots: [{ uri: "file:///home/ada", name: "home" }] }),
};

async function failure(work) {
  try {
    return { result: await work };
  } catch (error) {
    return { code: error.code, data: error.data ?? null };
  }
}

async function tools(client, call) {
  return {
    listed: (await client.listTools()).tools,
    echo: await call("echo", { text: "grüße 🌍" }),
    add: await call("add", { a: 2, b: 3 }),
    count: await call("count"),
    gallery: await call("gallery"),
    failing: await call("failing"),
    failingSum: await call("failing_sum", { a: 1 }),
    wrong: await call("add", { a: "one" }),
    unknown: await failure(call("missing")),
    noisy: await call("noisy"),
  };
}

async function progress(call) {
  // These clients drop progress that arrives in one read with the result, hence the tool that waits for `go_on`.
  const order = [];
  const onprogress = ({ progress, total, message }) => {
    order.push([progress, total, message]);
    call("go_on");
  };
  const result = await call("paced", { steps: 3 }, { onprogress });
  order.push(result.content[0].text);
  return order;
}

async function cancellation(call) {
  const controller = new AbortController();
  let started;
  const running = new Promise((resolve) => (started = resolve));
  const waiting = call("wait_forever", {}, { signal: controller.signal, onprogress: started });
  await running;
  const before = (await call("counts")).structuredContent;
  controller.abort("changed my mind");
  const outcome = await waiting.then(() => "answered", () => "aborted");
  return { outcome, before, after: (await call("counts", { cancelled: 1 })).structuredContent };
}

async function questions(call, asked) {
  return {
    form: await call("ask_name"),
    interview: await call("interview"),
    haiku: await call("sample_haiku", { topic: "frogs" }),
    roots: await call("list_roots"),
    asked,
  };
}

async function resources(client) {
  return {
    listed: (await client.listResources()).resources,
    templates: (await client.listResourceTemplates()).resourceTemplates,
    text: await client.readResource({ uri: "memo://static" }),
    blob: await client.readResource({ uri: "memo://bytes" }),
    filled: await client.readResource({ uri: "memo://people/ada" }),
    missing: await failure(client.readResource({ uri: "memo://nowhere" })),
  };
}

async function prompts(client) {
  const ref = { type: "ref/prompt", name: "greeting" };
  return {
    listed: (await client.listPrompts()).prompts,
    got: await client.getPrompt({ name: "greeting", arguments: { name: "Ada" } }),
    missing: await failure(client.getPrompt({ name: "greeting", arguments: {} })),
    completed: await client.complete({ ref, argument: { name: "style", value: "f" } }),
  };
}

async function changes(client, call, recorder, watch) {
  const unwatch = await watch();
  await call("register_tool", { name: "hello" });
  await recorder.waitFor("notifications/tools/list_changed");
  const added = (await client.listTools()).tools.at(-1).name;
  const called = await call("hello", { who: "Ada" });
  await call("touch_resource");
  await recorder.waitFor("notifications/resources/updated");
  const read = await client.readResource({ uri: "memo://watched" });
  await call("add_resource", { name: "new" });
  await recorder.waitFor("notifications/resources/list_changed");
  const before = recorder.kinds().length;
  await unwatch();
  await call("touch_resource");
  await call("echo", { text: "a turn later" });
  return { added, called, read, received: recorder.received, afterwards: recorder.received.slice(before) };
}

async function manyAtOnce(call) {
  const texts = Array.from({ length: 100 }, (_, number) => `text ${number}`);
  const results = await Promise.all(texts.map((text) => call("echo", { text })));
  return results.every((result, index) => result.content[0].text === texts[index]);
}

// `call` is (name, arguments, options); `watch` subscribes to changes and returns a function that unsubscribes.
export async function runScenario({ client, call, recorder, asked, watch }) {
  return {
    server: client.getServerVersion(),
    capabilities: client.getServerCapabilities(),
    instructions: client.getInstructions(),
    tools: await tools(client, call),
    progress: await progress(call),
    polled: await call("polled", {}, { onprogress: () => {} }),
    cancellation: await cancellation(call),
    questions: await questions(call, asked),
    resources: await resources(client),
    prompts: await prompts(client),
    changes: await changes(client, call, recorder, watch),
    manyAtOnce: await manyAtOnce(call),
  };
}

export async function print(result) {
  await new Promise((resolve) => process.stdout.write(JSON.stringify(result), resolve));
}
