// How an end comes to its channels: the signalling server, descriptions and addresses, WebRTC.
// The publisher offers, the viewer answers an offer whether it asked for it or not; there may be one connection of each kind.
import { sealing } from "./secrets.js";

const side = { publisher: "local", viewer: "remote" };

export class Meeting {
  constructor(host, { onOpen, onText, onTrouble }) {
    Object.assign(this, { host, onOpen, onText, onTrouble });
    this.links = {}; // by role; the tests' rooms have one other end
    this.early = { publisher: [], viewer: [] };
    this.queue = Promise.resolve();
  }

  async enter(room, name, target) {
    this.names = await sealing();
    this.stream = this.names.stream(name);
    this.target = target;
    this.socket = new WebSocket(this.host);
    this.socket.onmessage = ({ data }) => this.inTurn(() => this.told(JSON.parse(data)));
    this.socket.onerror = () => this.onTrouble(new Error("the signalling server is not there"));
    await new Promise((resolve) => (this.socket.onopen = resolve));
    this.tell({ request: "joinroom", roomid: await this.names.room(room) });
  }

  // Cryptography is asynchronous, and what is said must be heard in order.
  inTurn(work) {
    this.queue = this.queue.then(work).catch(this.onTrouble);
  }

  tell(message) {
    this.socket.send(JSON.stringify(message));
  }

  async told(message) {
    if (message.request === "listing") {
      this.tell({ request: "seed", streamID: this.stream });
      if (this.target) this.tell({ request: "play", streamID: this.names.stream(this.target) });
    } else if (message.request === "offerSDP") {
      await this.offer(message.UUID);
    } else if (message.description) {
      await this.described(message);
    } else if (message.candidates) {
      const role = message.type === "local" ? "viewer" : "publisher";
      const candidates = await this.names.unseal(message.candidates, message.vector);
      await this.take(role, message.session, candidates);
    }
  }

  connection(role, uuid, session, streamID) {
    this.links[role]?.peer.close();
    const peer = new RTCPeerConnection();
    const link = { role, uuid, session, streamID, peer };
    this.links[role] = link;
    peer.onicecandidate = ({ candidate }) =>
      candidate && this.inTurn(() => this.sayCandidate(link, candidate.toJSON()));
    return link;
  }

  async sayCandidate({ role, uuid, session }, candidate) {
    const [candidates, vector] = await this.names.seal([candidate]);
    this.tell({ UUID: uuid, type: side[role], candidates, session, vector });
  }

  async offer(uuid) {
    const session = Math.random().toString(36).slice(2, 10);
    const link = this.connection("publisher", uuid, session, this.stream);
    this.use(link, link.peer.createDataChannel("sendChannel"));
    await link.peer.setLocalDescription();
    await this.describe(link);
  }

  async describe({ uuid, session, streamID, peer }) {
    const { type, sdp } = peer.localDescription;
    const [description, vector] = await this.names.seal({ type, sdp });
    this.tell({ UUID: uuid, session, streamID, description, vector });
  }

  async described({ UUID, session, streamID, description, vector }) {
    const opened = await this.names.unseal(description, vector);
    const role = opened.type === "offer" ? "viewer" : "publisher";
    if (role === "publisher" && this.links[role]?.session !== session) return;
    const link = role === "viewer" ? this.connection(role, UUID, session, streamID) : this.links[role];
    link.peer.ondatachannel = ({ channel }) => this.use(link, channel);
    await link.peer.setRemoteDescription(opened);
    if (role === "viewer") {
      await link.peer.setLocalDescription();
      await this.describe(link);
    }
    link.isDescribed = true;
    await this.take(role, session, this.early[role].splice(0));
  }

  async take(role, session, candidates) {
    const link = this.links[role];
    if (!link?.isDescribed) this.early[role].push(...candidates);
    else if (link.session === session) for (const one of candidates) await link.peer.addIceCandidate(one);
  }

  use(link, channel) {
    if (channel.label !== "sendChannel") return; // an original knows no other
    link.channel = channel;
    channel.onmessage = ({ data }) => this.inTurn(() => this.onText(data));
    const open = () => {
      const info = { info: { label: "a page" } };
      channel.send(JSON.stringify(link.role === "publisher" ? info : { audio: false, video: false, ...info }));
      this.inTurn(() => this.onOpen(link.role));
    };
    if (channel.readyState === "open") open();
    else channel.onopen = open;
  }

  say(frame) {
    const links = ["publisher", "viewer"].map((role) => this.links[role]);
    const open = links.find((link) => link?.channel?.readyState === "open");
    if (!open) throw new Error("there is no open channel");
    open.channel.send(JSON.stringify(frame));
  }
}
