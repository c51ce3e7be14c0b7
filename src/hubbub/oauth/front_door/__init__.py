"""The hub as the authorization server of its MCP clients (OAuth 2.1, `[oauth] front_door`).

    front_door.py      the routes, and everything below put together; config.py has its configuration
    authorization.py   from the authorization request to the code: login, consent, redirect
    login_states.py    what is sealed between these steps
    grants.py          token and revocation requests, with authlib's grants; the only module here that imports it
    clients.py         clients and their redirect URIs; client_directory.py finds them, client_documents.py fetches some
    client_authentication.py  how clients authenticate; client_assertions.py verifies JWTs that they signed
    provider.py        the identity provider at which people log in; provider_logins.py checks them there again
    store.py           codes, grants (records.py), consents and revocations in the SQL store (tables), which also has
                       registrations and signing keys
    access_tokens.py   signs access tokens, with the keys of signing_keys.py, and verifies them
    pages.py           the login, consent and error pages; web.py parses requests and sends responses
    attempt_limiter.py limits attempts for each network address

The state of a login that has not ended is sealed in URLs and bound to a cookie of the browser, so any process of the
installation can continue it.
"""
