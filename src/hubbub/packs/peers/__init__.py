"""The peers pack: agents on different machines exchange messages, files and state over WebRTC.

The lower half is `engine` (WebRTC), `signalling` (how peers find each other) and `wire` (messages on a channel). `room`
is the interface between the halves: the peers of one room, known by name. The upper half is files, shared state and the
tools. Both use the pure modules `js_json`, `names`, `encryption`, `tokens`, `session_mac` and `shared_state`.
"""
