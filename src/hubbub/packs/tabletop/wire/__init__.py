"""The messages between a server and a campaign server. `*_pb2.py` are made by scripts/protos; do not edit them."""
