// An end of a room as the original is one, in a page. It does what it is asked to by the other end's data:
//   {please: "echo", value}        says {echo: value}
//   {please: "send", bytes, seed}  sends a file of that many bytes, one chunk at a time, and says {sent: …}
// and says {received: …} of each file that comes. What goes wrong is posted to where the page came from.
import { Meeting } from "./meeting.js";
import { base64, hex, keyPair, mac, sha256, unbase64 } from "./secrets.js";

const MARK = "vdo_mcp_bridge_v1";
const CHUNK_BYTES = 65536;
const ANSWER_MS = 5000;
const { host, room, name, target } = Object.fromEntries(new URLSearchParams(location.search));
const capabilities = { sync_v1: true, file_transfer_v1: true, state_v1: true, resume_v1: true, session_mac_v1: true };

const trouble = (error) => fetch("/trouble", { method: "POST", body: `${error.name}: ${error.message}\n${error.stack}` });
const meeting = new Meeting(host, { onOpen: greet, onText: hear, onTrouble: trouble });
const keys = await keyPair();
const waiting = new Map(); // by kind and transfer: who waits for an answer
const incoming = new Map();
let shared = null;

const nonce = () => "p_" + hex(crypto.getRandomValues(new Uint8Array(4)));
const pipe = (data) => meeting.say({ pipe: data });

async function envelope(kind, payload) {
  const said = { __vdo_mcp: MARK, kind, ts: Date.now(), nonce: nonce(), room, from_stream_id: name, payload };
  const isSigned = shared && kind !== "sync.hello";
  pipe(isSigned ? { ...said, mac: await mac(shared, said) } : said);
}

const hello = () => ({ capabilities, public_key: keys.publicKey, join_token: null });

function greet() {
  return envelope("sync.hello", hello());
}

async function hear(text) {
  const frame = JSON.parse(text);
  if (frame.ping) meeting.say({ pong: frame.ping }); // on the channel that is preferred, wherever it was asked
  else if (frame.pipe?.__vdo_mcp === MARK) await hearEnvelope(frame.pipe);
  else if ("pipe" in frame) asked(frame.pipe);
}

async function hearEnvelope(said) {
  const { kind, payload } = said;
  if (kind === "sync.hello" || kind === "sync.hello_ack") {
    shared = await keys.sharedWith(payload.public_key);
    if (kind === "sync.hello") await envelope("sync.hello_ack", hello());
    await envelope("state.snapshot_req", { room, requester_stream_id: name });
    return;
  }
  if (kind.startsWith("sync.")) return;
  if (said.mac && (await mac(shared, said)) !== said.mac) throw new Error(`the MAC of ${kind} is wrong`);
  if (!said.mac) throw new Error(`${kind} has no MAC`);
  if (kind in receiving) await receiving[kind](payload);
  waiting.get(`${kind} ${payload.transfer_id}`)?.(payload);
}

function asked(data) {
  if (data?.please === "echo") pipe({ echo: data.value });
  else if (data?.please === "send") send(data).catch(trouble); // its answers are heard meanwhile
}

// -- a file that comes

const receiving = {
  async "file.offer"(offer) {
    incoming.set(offer.transfer_id, { offer, chunks: [], bytes: 0 });
    await envelope("file.accept", { transfer_id: offer.transfer_id, next_seq: 0 });
  },

  async "file.chunk"({ transfer_id, seq, data_base64, chunk_hash }) {
    const file = incoming.get(transfer_id);
    const data = unbase64(data_base64);
    if (hex(await sha256(data)) !== chunk_hash) throw new Error(`the hash of chunk ${seq} is wrong`);
    if (file.chunks[seq] === undefined) file.bytes += data.length;
    file.chunks[seq] = data;
    const missing = Array.from(file.chunks, (chunk) => chunk === undefined).indexOf(true);
    const next_seq = missing < 0 ? file.chunks.length : missing;
    await envelope("file.ack", { transfer_id, seq, next_seq, received_bytes: file.bytes });
  },

  async "file.complete"({ transfer_id, total_bytes, file_hash }) {
    const { offer, chunks } = incoming.get(transfer_id);
    const whole = new Uint8Array(await new Blob(chunks).arrayBuffer());
    const hash = hex(await sha256(whole));
    if (hash !== file_hash || whole.length !== total_bytes) throw new Error("the file is not the one that was offered");
    await envelope("file.complete_ack", { transfer_id, file_hash: hash, total_bytes });
    pipe({ received: { name: offer.name, mime: offer.mime, bytes: whole.length, hash } });
  },
};

// -- a file that goes

function answer(kind, transfer_id) {
  const key = `${kind} ${transfer_id}`;
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`no ${key} came`)), ANSWER_MS);
    waiting.set(key, (payload) => {
      clearTimeout(late);
      waiting.delete(key);
      resolve(payload);
    });
  });
}

async function ask(kind, payload, answerKind) {
  const coming = answer(answerKind, payload.transfer_id);
  await envelope(kind, payload);
  return coming;
}

async function send({ bytes, seed }) {
  const whole = Uint8Array.from({ length: bytes }, (_, at) => (at * seed + (at >> 8)) & 255);
  const transfer_id = `file_${hex(crypto.getRandomValues(new Uint8Array(4)))}`;
  const file_hash = hex(await sha256(whole));
  const total = { transfer_id, total_bytes: bytes, file_hash };
  const chunks = { total_chunks: Math.ceil(bytes / CHUNK_BYTES), chunk_bytes: CHUNK_BYTES };
  let { next_seq } = await ask("file.offer", { ...total, ...chunks, name: "page.bin", mime: "" }, "file.accept");
  while (next_seq < chunks.total_chunks) {
    const data = whole.subarray(next_seq * CHUNK_BYTES, (next_seq + 1) * CHUNK_BYTES);
    const chunk = { transfer_id, seq: next_seq, data_base64: base64(data), chunk_hash: hex(await sha256(data)) };
    ({ next_seq } = await ask("file.chunk", chunk, "file.ack"));
  }
  await ask("file.complete", total, "file.complete_ack");
  pipe({ sent: total });
}

await meeting.enter(room, name, target).catch(trouble);
