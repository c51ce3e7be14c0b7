"""OAuth 2.1 as MCP uses it: resource server, client, and the hub as an authorization server.

    metadata, documents, dpop_proofs, errors, limits    shared by all three
    client/            logs in at authorization servers, for `Client`, the command line and upstreams of a hub
    resource_server/   tokens of authorization servers: metadata of the resource, challenges, introspection, DPoP
    front_door/        the hub as an authorization server, which delegates logins to an identity provider

Nothing here is imported unless a setting or a server asks for OAuth.
"""
