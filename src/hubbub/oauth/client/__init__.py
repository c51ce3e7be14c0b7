"""The client side of OAuth: discovery, registration, grants and tokens for one MCP server.

settings         `OAuth`, what a user configures
credentials      tokens and registrations, and the interface of their stores
credential_store credentials of the user of this machine, in an encrypted file
sql_store        credentials of the users of a hub, in a database
browser_login    shows the authorization page, and receives its redirect on a loopback port or from the terminal
redirects        interfaces that show the authorization page and receive its redirect
challenges       parses `WWW-Authenticate`
discovery        finds the authorization server of an MCP server
registration     obtains a client id: pre-registered, metadata document, or dynamic registration
dpop             proofs that a request was made with the key of its token
tokens           requests to the token endpoint, with client authentication and DPoP
login            the authorization code flow, in two halves that may run in different processes
machine_grants   grants without a person: client credentials, JWT bearer, enterprise-managed, token exchange
oauth_client     puts these together for one server
authorizer       adds tokens to requests, refreshes them, and handles 401 and 403
"""
