// Joins a room and opens data channels: signalling, descriptions and ICE candidates, WebRTC.
// The publisher offers; the viewer answers every offer, requested or not. There may be one connection of each kind.
import { createRoomCipher } from "./crypto.js";

const side = { publisher: "local", viewer: "remote" };

export class RoomClient {
  constructor(host, { onOpen, onText, onError }) {
    Object.assign(this, { host, onOpen, onText, onError });
    this.links = {}; // by role; the rooms of the tests have one other peer
    this.earlyCandidates = { publisher: [], viewer: [] };
    this.queue = Promise.resolve();
  }

  async join(room, name, target) {
    this.cipher = await createRoomCipher();
    this.stream = this.cipher.stream(name);
    this.target = target;
    this.socket = new WebSocket(this.host);
    this.socket.onmessage = ({ data }) => this.enqueue(() => this.handleMessage(JSON.parse(data)));
    this.socket.onerror = () => this.onError(new Error("cannot connect to the signalling server"));
    await new Promise((resolve) => (this.socket.onopen = resolve));
    this.sendMessage({ request: "joinroom", roomid: await this.cipher.room(room) });
  }

  // Cryptography is asynchronous, but messages must be handled in order.
  enqueue(work) {
    this.queue = this.queue.then(work).catch(this.onError);
  }

  sendMessage(message) {
    this.socket.send(JSON.stringify(message));
  }

  async handleMessage(message) {
    if (message.request === "listing") {
      this.sendMessage({ request: "seed", streamID: this.stream });
      if (this.target) this.sendMessage({ request: "play", streamID: this.cipher.stream(this.target) });
    } else if (message.request === "offerSDP") {
      await this.offer(message.UUID);
    } else if (message.description) {
      await this.handleDescription(message);
    } else if (message.candidates) {
      const role = message.type === "local" ? "viewer" : "publisher";
      const candidates = await this.cipher.decrypt(message.candidates, message.vector);
      await this.addCandidates(role, message.session, candidates);
    }
  }

  createLink(role, uuid, session, streamID) {
    this.links[role]?.peer.close();
    const peer = new RTCPeerConnection();
    const link = { role, uuid, session, streamID, peer };
    this.links[role] = link;
    peer.onicecandidate = ({ candidate }) =>
      candidate && this.enqueue(() => this.sendCandidate(link, candidate.toJSON()));
    return link;
  }

  async sendCandidate({ role, uuid, session }, candidate) {
    const [candidates, vector] = await this.cipher.encrypt([candidate]);
    this.sendMessage({ UUID: uuid, type: side[role], candidates, session, vector });
  }

  async offer(uuid) {
    const session = Math.random().toString(36).slice(2, 10);
    const link = this.createLink("publisher", uuid, session, this.stream);
    this.attachChannel(link, link.peer.createDataChannel("sendChannel"));
    await link.peer.setLocalDescription();
    await this.sendDescription(link);
  }

  async sendDescription({ uuid, session, streamID, peer }) {
    const { type, sdp } = peer.localDescription;
    const [description, vector] = await this.cipher.encrypt({ type, sdp });
    this.sendMessage({ UUID: uuid, session, streamID, description, vector });
  }

  async handleDescription({ UUID, session, streamID, description, vector }) {
    const decrypted = await this.cipher.decrypt(description, vector);
    const role = decrypted.type === "offer" ? "viewer" : "publisher";
    if (role === "publisher" && this.links[role]?.session !== session) return;
    const link = role === "viewer" ? this.createLink(role, UUID, session, streamID) : this.links[role];
    link.peer.ondatachannel = ({ channel }) => this.attachChannel(link, channel);
    await link.peer.setRemoteDescription(decrypted);
    if (role === "viewer") {
      await link.peer.setLocalDescription();
      await this.sendDescription(link);
    }
    link.isDescribed = true;
    await this.addCandidates(role, session, this.earlyCandidates[role].splice(0));
  }

  async addCandidates(role, session, candidates) {
    const link = this.links[role];
    if (!link?.isDescribed) this.earlyCandidates[role].push(...candidates);
    else if (link.session === session) for (const candidate of candidates) await link.peer.addIceCandidate(candidate);
  }

  attachChannel(link, channel) {
    if (channel.label !== "sendChannel") return; // the only channel of a VDO.Ninja bridge
    link.channel = channel;
    channel.onmessage = ({ data }) => this.enqueue(() => this.onText(data));
    const open = () => {
      const info = { info: { label: "a page" } };
      channel.send(JSON.stringify(link.role === "publisher" ? info : { audio: false, video: false, ...info }));
      this.enqueue(() => this.onOpen(link.role));
    };
    if (channel.readyState === "open") open();
    else channel.onopen = open;
  }

  send(frame) {
    const links = ["publisher", "viewer"].map((role) => this.links[role]);
    const open = links.find((link) => link?.channel?.readyState === "open");
    if (!open) throw new Error("there is no open channel");
    open.channel.send(JSON.stringify(frame));
  }
}
