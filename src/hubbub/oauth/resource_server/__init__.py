"""The server as an OAuth resource server: accepts access tokens of authorization servers.

    resource        the URLs of the endpoints: metadata documents (RFC 9728), challenges, audiences
    authenticator   authenticates callers: issuer, scopes, DPoP
    issuers         the keys of an authorization server, found by discovery
    introspection   opaque tokens (RFC 7662)

Tokens are used to authenticate the caller and for nothing else; they are never sent to other servers.
"""
