"""The tabletop pack: campaigns, sessions and Duality dice for game masters who work with an AI.

model, duality, dice   data types and dice rules: pure
backend                the interface of a campaign backend
store_backend          a backend in this process, on SQL
grpc_backend           a client of a backend in another process, which `hubbub campaign-server` runs
"""
