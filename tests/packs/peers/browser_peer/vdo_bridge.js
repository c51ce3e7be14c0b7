// A VDO.Ninja bridge in a browser page. It runs commands that arrive as data:
//   {command: "echo", value}        replies {echo: value}
//   {command: "send", bytes, seed}  sends a file of that many bytes, one chunk at a time, and replies {sent: …}
// It sends {received: …} after each received file. Errors are posted to the server of the page.
import { RoomClient } from "./room_client.js";
import { base64, hex, keyPair, mac, sha256, unbase64 } from "./crypto.js";

const MARK = "vdo_mcp_bridge_v1";
const CHUNK_BYTES = 65536;
const REPLY_TIMEOUT_MS = 5000;
const { host, room, name, target } = Object.fromEntries(new URLSearchParams(location.search));
const capabilities = { sync_v1: true, file_transfer_v1: true, state_v1: true, resume_v1: true, session_mac_v1: true };

const reportError = (error) => fetch("/errors", { method: "POST", body: `${error.name}: ${error.message}\n${error.stack}` });
const client = new RoomClient(host, { onOpen: sendHello, onText: handleText, onError: reportError });
const keys = await keyPair();
const pendingReplies = new Map(); // resolvers by kind and transfer id
const incoming = new Map();
let shared = null;

const nonce = () => "p_" + hex(crypto.getRandomValues(new Uint8Array(4)));
const pipe = (data) => client.send({ pipe: data });

async function envelope(kind, payload) {
  const content = { __vdo_mcp: MARK, kind, ts: Date.now(), nonce: nonce(), room, from_stream_id: name, payload };
  const isSigned = shared && kind !== "sync.hello";
  pipe(isSigned ? { ...content, mac: await mac(shared, content) } : content);
}

const hello = () => ({ capabilities, public_key: keys.publicKey, join_token: null });

function sendHello() {
  return envelope("sync.hello", hello());
}

async function handleText(text) {
  const frame = JSON.parse(text);
  if (frame.ping) client.send({ pong: frame.ping }); // on the preferred channel, not the one of the ping
  else if (frame.pipe?.__vdo_mcp === MARK) await handleEnvelope(frame.pipe);
  else if ("pipe" in frame) runCommand(frame.pipe);
}

async function handleEnvelope(message) {
  const { kind, payload } = message;
  if (kind === "sync.hello" || kind === "sync.hello_ack") {
    shared = await keys.sharedWith(payload.public_key);
    if (kind === "sync.hello") await envelope("sync.hello_ack", hello());
    await envelope("state.snapshot_req", { room, requester_stream_id: name });
    return;
  }
  if (kind.startsWith("sync.")) return;
  if (message.mac && (await mac(shared, message)) !== message.mac) throw new Error(`the MAC of ${kind} is wrong`);
  if (!message.mac) throw new Error(`${kind} has no MAC`);
  if (kind in receiving) await receiving[kind](payload);
  pendingReplies.get(`${kind} ${payload.transfer_id}`)?.(payload);
}

function runCommand(data) {
  if (data?.command === "echo") pipe({ echo: data.value });
  else if (data?.command === "send") send(data).catch(reportError); // not awaited: its replies have to be handled meanwhile
}

// -- receiving files

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
    if (hash !== file_hash || whole.length !== total_bytes) throw new Error("the size or hash of the file differs from the offer");
    await envelope("file.complete_ack", { transfer_id, file_hash: hash, total_bytes });
    pipe({ received: { name: offer.name, mime: offer.mime, bytes: whole.length, hash } });
  },
};

// -- sending files

function waitForReply(kind, transfer_id) {
  const key = `${kind} ${transfer_id}`;
  return new Promise((resolve, reject) => {
    const timeout = setTimeout(() => reject(new Error(`no ${key} arrived`)), REPLY_TIMEOUT_MS);
    pendingReplies.set(key, (payload) => {
      clearTimeout(timeout);
      pendingReplies.delete(key);
      resolve(payload);
    });
  });
}

async function request(kind, payload, replyKind) {
  const reply = waitForReply(replyKind, payload.transfer_id);
  await envelope(kind, payload);
  return reply;
}

async function send({ bytes, seed }) {
  const whole = Uint8Array.from({ length: bytes }, (_, at) => (at * seed + (at >> 8)) & 255);
  const transfer_id = `file_${hex(crypto.getRandomValues(new Uint8Array(4)))}`;
  const file_hash = hex(await sha256(whole));
  const total = { transfer_id, total_bytes: bytes, file_hash };
  const chunks = { total_chunks: Math.ceil(bytes / CHUNK_BYTES), chunk_bytes: CHUNK_BYTES };
  let { next_seq } = await request("file.offer", { ...total, ...chunks, name: "page.bin", mime: "" }, "file.accept");
  while (next_seq < chunks.total_chunks) {
    const data = whole.subarray(next_seq * CHUNK_BYTES, (next_seq + 1) * CHUNK_BYTES);
    const chunk = { transfer_id, seq: next_seq, data_base64: base64(data), chunk_hash: hex(await sha256(data)) };
    ({ next_seq } = await request("file.chunk", chunk, "file.ack"));
  }
  await request("file.complete", total, "file.complete_ack");
  pipe({ sent: total });
}

await client.join(room, name, target).catch(reportError);
