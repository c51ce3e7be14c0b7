"""The tabletop pack: campaigns, sessions and Duality dice for a game master with an AI at the table.

model, duality, dice   what there is, and how dice fall: pure
backend                what a keeper of campaigns does
store_backend          one in this process, on SQL
grpc_backend           one in another process, that `hubbub campaign-server` runs
"""
