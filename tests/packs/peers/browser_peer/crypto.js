// Hashes, encryption and MACs of a VDO.Ninja bridge, with the cryptography and JSON of the browser.
const DEFAULT_PASSWORD = "someEncryptionKey123";
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

// Room and stream ids as the signalling server sees them, and encryption of descriptions.
export async function createRoomCipher(password = DEFAULT_PASSWORD) {
  const secret = encodeURIComponent(password.trim());
  const digest = await sha256(secret + SALT);
  const key = await crypto.subtle.importKey("raw", digest, "AES-CBC", false, ["encrypt", "decrypt"]);
  return {
    room: async (name) => hex(await sha256(name + secret + SALT)).slice(0, 16),
    stream: (name) => name + hex(digest).slice(0, 6),
    async encrypt(value) {
      const iv = crypto.getRandomValues(new Uint8Array(16));
      const ciphertext = await crypto.subtle.encrypt({ name: "AES-CBC", iv }, key, encode(JSON.stringify(value)));
      return [hex(ciphertext), hex(iv)];
    },
    async decrypt(text, vector) {
      const plaintext = await crypto.subtle.decrypt({ name: "AES-CBC", iv: unhex(vector) }, key, unhex(text));
      return JSON.parse(new TextDecoder().decode(plaintext));
    },
  };
}

// One key pair for the session; the secret shared with a peer signs the envelopes to it.
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
