// What an end hashes, seals and signs, with the browser's own cryptography and JSON.
const USUAL_PASSWORD = "someEncryptionKey123";
const SALT = "vdo.ninja";
const encode = (text) => new TextEncoder().encode(text);

export const hex = (bytes) => Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
export const sha256 = async (data) =>
  new Uint8Array(await crypto.subtle.digest("SHA-256", typeof data === "string" ? encode(data) : data));

const unhex = (text) => Uint8Array.from(text.match(/../g), (pair) => parseInt(pair, 16));

export function base64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}

export const unbase64 = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

// Names as the signalling server sees them, and the seal that keeps descriptions from it.
export async function sealing(password = USUAL_PASSWORD) {
  const secret = encodeURIComponent(password.trim());
  const digest = await sha256(secret + SALT);
  const key = await crypto.subtle.importKey("raw", digest, "AES-CBC", false, ["encrypt", "decrypt"]);
  return {
    room: async (name) => hex(await sha256(name + secret + SALT)).slice(0, 16),
    stream: (name) => name + hex(digest).slice(0, 6),
    async seal(value) {
      const iv = crypto.getRandomValues(new Uint8Array(16));
      const sealed = await crypto.subtle.encrypt({ name: "AES-CBC", iv }, key, encode(JSON.stringify(value)));
      return [hex(sealed), hex(iv)];
    },
    async unseal(text, vector) {
      const opened = await crypto.subtle.decrypt({ name: "AES-CBC", iv: unhex(vector) }, key, unhex(text));
      return JSON.parse(new TextDecoder().decode(opened));
    },
  };
}

// One pair of keys for the whole stay; the secret shared with a peer signs what is said to it.
export async function keyPair() {
  const pair = await crypto.subtle.generateKey({ name: "X25519" }, true, ["deriveBits"]);
  const publicKey = base64(new Uint8Array(await crypto.subtle.exportKey("spki", pair.publicKey)));
  return {
    publicKey,
    async sharedWith(theirs) {
      const key = await crypto.subtle.importKey("spki", unbase64(theirs), { name: "X25519" }, false, []);
      const bits = await crypto.subtle.deriveBits({ name: "X25519", public: key }, pair.privateKey, 256);
      return crypto.subtle.importKey("raw", bits, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
    },
  };
}

export async function mac(key, { kind, ts, nonce, room, from_stream_id, payload }) {
  const text = JSON.stringify({ kind, ts, nonce, room, from_stream_id, payload });
  return hex(await crypto.subtle.sign("HMAC", key, encode(text)));
}
