"""Logins of a hub's users at its upstreams: each user's own login at a server with `per_user`.

    server_logins      the credentials of the users at one server
    authorizers        add tokens to requests, and notice when a login ends or lacks scopes
    upstream_logins    starts, finishes and ends logins; wakes the calls that wait for one
    claims             remember that a link was used, and by which browser
    login_peer         asks a caller without a login to open the page, and continues the call afterwards
    pages              the pages and routes for the user's browser
    connect_tool       `hub.connect`

Loaded only if a server has `per_user`.
"""
