"""Servers at which each user of the hub logs in with an account of their own.

    user_logins    the credentials of the users at one server, and the authorizers that use them
    connections    starts, finishes and ends logins; knows who waits for one
    consent_peer   asks a caller without a login to open the page, and continues the call afterwards
    pages          what the browser of the user sees
    connect_tool   `hub.connect`

Loaded only if a server has `per_user`.
"""
