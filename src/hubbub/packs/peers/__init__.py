"""The peers pack: agents on different machines exchange messages, files and state over WebRTC.

Below: `engine` (WebRTC), `signalling` (how two ends find each other), `wire` (what goes
over a channel). In the middle `room`: everybody in one room, known by name. Above, files,
shared state and the tools. Pure, for both: `javascript`, `names`, `sealing`, `tokens`,
`session_mac`, `shared_state`.
"""
