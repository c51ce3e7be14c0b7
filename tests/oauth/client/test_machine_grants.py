"""Grants without a person: what is sent where, and that a refused grant is not replaced by another."""

import json
from typing import Any

import pytest
from joserfc import jwk, jwt
from tests.oauth.client.protected_server import ProtectedServer, protected_server

from hubbub import IdentityProvider, OAuth, OAuthError, SettingsError, TokenRequestRefused
from hubbub.oauth.client.machine_grants import (
    ACCESS_TOKEN_TYPE,
    ID_JAG_TYPE,
    ID_TOKEN_TYPE,
    JWT_BEARER,
    TOKEN_EXCHANGE,
)
from hubbub.security.jose import JwtSigningKey


async def use(server: ProtectedServer, auth: OAuth) -> dict[str, str]:
    """Call a tool, and return the first token request."""
    async with server.client(auth) as client:
        await client.call_tool("echo", {})
    return server.token_requests[0]


async def test_client_credentials_are_sent_with_scope_and_resource() -> None:
    async with protected_server() as server:
        server.resource["scopes_supported"] = ["read"]
        auth = OAuth(grant="client_credentials", client_id="job", client_secret="s3cret-of-the-job")
        form = await use(server, auth)
        (headers,) = server.token_headers
    assert form == {"grant_type": "client_credentials", "scope": "read", "resource": server.url}
    assert headers["authorization"].startswith("Basic ")


async def test_a_new_token_is_requested_when_the_old_one_is_refused() -> None:
    async with protected_server() as server:
        auth = OAuth(grant="client_credentials", client_id="job", client_secret="s3cret-of-the-job")
        async with server.client(auth) as client:
            server.revoke_tokens()
            await client.tools()
        assert [form["grant_type"] for form in server.token_requests] == ["client_credentials"] * 2


async def test_a_private_key_signs_an_assertion_for_the_issuer() -> None:
    key = JwtSigningKey.generate()
    async with protected_server() as server:
        auth = OAuth(
            grant="client_credentials", client_id="job", private_key=key.to_pem().decode(), private_key_id="k1"
        )
        form = await use(server, auth)
        claims = jwt.decode(form["client_assertion"], jwk.import_key(key.public_jwk()), algorithms=["ES256"])
    assert claims.header["kid"] == "k1"
    assert (claims.claims["iss"], claims.claims["sub"], claims.claims["aud"]) == ("job", "job", server.origin)
    assert claims.claims["exp"] - claims.claims["iat"] == 60
    assert form["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    assert form["client_id"] == "job"


async def test_a_workload_presents_a_fresh_assertion_for_the_issuer() -> None:
    audiences = []

    async def assertion(audience: str) -> str:
        audiences.append(audience)
        return f"jwt-{len(audiences)}"

    async with protected_server() as server:
        form = await use(server, OAuth(grant="jwt_bearer", assertion=assertion))
    assert form == {"grant_type": JWT_BEARER, "assertion": "jwt-1", "resource": server.url}
    assert audiences == [server.origin]


@pytest.mark.parametrize("code", ["invalid_grant", "invalid_scope", "unauthorized_client"])
async def test_a_refused_assertion_is_neither_repeated_nor_replaced_by_another_grant(code: str) -> None:
    async with protected_server() as server:

        async def refuse(request: Any) -> None:
            await request.reply(400, {"error": code, "error_description": "the assertion was-a-secret-jwt is bad"})

        server.handle["/token"] = refuse
        client = server.client(OAuth(grant="jwt_bearer", assertion="was-a-secret-jwt"))
        with pytest.raises(TokenRequestRefused, match=code) as caught:
            await client.start()
        await client.close()
        assert "was-a-secret-jwt" not in str(caught.value)
        assert server.paths().count("/token") == 1
        assert server.registrations == server.authorizations == []


async def test_a_token_of_a_person_is_exchanged() -> None:
    async with protected_server() as server:
        auth = OAuth(
            grant="token_exchange",
            client_id="hub",
            client_secret="secret-of-the-hub",
            subject_token="token-of-ada",
            scope="read",
        )
        form = await use(server, auth)
    assert form == {
        "grant_type": TOKEN_EXCHANGE,
        "subject_token": "token-of-ada",
        "subject_token_type": ACCESS_TOKEN_TYPE,
        "requested_token_type": ACCESS_TOKEN_TYPE,
        "scope": "read",
        "resource": server.url,
    }


def enterprise(idp: ProtectedServer, **fields: Any) -> OAuth:
    provider = IdentityProvider(
        **{"issuer": idp.origin, "client_id": "at-the-idp", "id_token": "id-token-of-ada", **fields}
    )
    return OAuth(
        grant="enterprise_managed",
        client_id="at-the-server",
        client_secret="secret-at-the-server",
        identity_provider=provider,
    )


async def test_an_id_token_becomes_an_assertion_at_the_provider_of_the_company() -> None:
    async with protected_server() as server, protected_server() as idp:
        idp.token_fields = {"access_token": "id-jag", "token_type": "N_A", "issued_token_type": ID_JAG_TYPE}
        form = await use(server, enterprise(idp))
        (exchanged,) = idp.token_requests
    assert exchanged == {
        "grant_type": TOKEN_EXCHANGE,
        "requested_token_type": ID_JAG_TYPE,
        "subject_token": "id-token-of-ada",
        "subject_token_type": ID_TOKEN_TYPE,
        "audience": server.origin,
        "resource": server.url,
        "client_id": "at-the-idp",
    }
    assert form == {"grant_type": JWT_BEARER, "assertion": "id-jag", "resource": server.url}


async def test_a_provider_that_issues_another_kind_of_token_is_reported() -> None:
    async with protected_server() as server, protected_server() as idp:
        idp.token_fields = {"issued_token_type": ACCESS_TOKEN_TYPE}
        client = server.client(enterprise(idp))
        with pytest.raises(OAuthError, match="enable enterprise-managed authorization there"):
            await client.start()
        await client.close()
        assert server.token_requests == []


async def test_a_provider_of_tokens_that_fails_is_named_without_its_exception() -> None:
    def fail(audience: str) -> str:
        raise RuntimeError("the-secret-of-the-vault")

    async with protected_server() as server:
        client = server.client(OAuth(grant="jwt_bearer", assertion=fail))
        with pytest.raises(OAuthError, match=r"`assertion` failed \(RuntimeError\)"):
            await client.start()
        await client.close()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"grant": "password"}, "Unknown `grant` 'password'"),
        ({"grant": "client_credentials"}, "needs `client_id`"),
        ({"grant": "client_credentials", "client_id": "x"}, "needs `client_secret` or `private_key`"),
        ({"grant": "jwt_bearer"}, "needs `assertion`"),
        ({"grant": "enterprise_managed", "client_id": "x"}, "needs `identity_provider`"),
        ({"grant": "token_exchange", "client_id": "x"}, "needs `subject_token`"),
        ({"client_secret": "x"}, "`client_secret` needs `client_id`"),
        ({"dpop": "yes"}, "`dpop` must be auto, require or off"),
        ({"issuer": "http://login.example"}, "`issuer` must be an https URL"),
    ],
)
def test_settings_that_do_not_fit_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        OAuth(**fields)


async def test_an_unusable_private_key_is_refused_without_being_shown() -> None:
    async with protected_server() as server:
        client = server.client(OAuth(grant="client_credentials", client_id="x", private_key="not-a-key"))
        with pytest.raises(OAuthError, match="`private_key` cannot be used") as caught:
            await client.start()
        await client.close()
        assert "not-a-key" not in str(caught.value)
        assert json.dumps(server.token_requests) == "[]"
