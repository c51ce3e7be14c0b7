"""A hub with everything switched on: tokens, a policy, pins, quotas and an audit journal."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from bench.floors.bare import TOOLS

SERVER = "bare"
QUIET_TENANT, FLOODING_TENANT = "quiet", "flooding"
_HUBBUB = ".venv/bin/hubbub"
ISSUER, AUDIENCE = "https://login.example.com", "hub"
_TOKEN_S = 24 * 3600
_OTHER_RULES = 99


class Tokens:
    """Signs tokens, as a login server does."""

    def __init__(self, folder: Path) -> None:
        from joserfc.jwk import ECKey

        self._key = ECKey.generate_key("P-256", parameters={"kid": "bench"})
        self.public_keys = folder / "keys.json"
        self.public_keys.write_text(json.dumps({"keys": [self._key.as_dict(private=False)]}))

    def make(self, tenant: str, user: str) -> str:
        """Return a token of a user."""
        from joserfc import jwt

        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": user,
            "tenant": tenant,
            "client_id": "bench",
            "scope": "tools",
            "iat": now,
            "exp": now + _TOKEN_S,
        }
        return jwt.encode({"alg": "ES256", "kid": "bench"}, claims, self._key)


class GovernedHub:
    """A folder with the settings of such a hub, and the command that runs it."""

    def __init__(self, folder: Path, place: str, *, tenants: list[str], flood_limit: str = "", idle_s: float = 900.0):
        """`flood_limit`: the quota of the flooding tenant; `idle_s`: when unused sessions with the server end."""
        self.tokens = Tokens(folder)
        self._folder = folder
        settings = [
            f"jwt_keys = {json.dumps(str(self.tokens.public_keys))}",
            f'jwt_issuer = "{ISSUER}"',
            f'jwt_audience = ["{AUDIENCE}"]',
            f"[servers.{SERVER}]\nurl = {json.dumps(place)}",
            '[pins]\nmode = "enforce"',
            f'[audit]\nsync = "batch"\nfolder = {json.dumps(str(folder / "audit"))}',
            *(f'[[tenants]]\nname = "{tenant}"\nsession_idle_s = {idle_s}' for tenant in tenants),
            *_policy(),
            *_quotas(flood_limit),
        ]
        Path(folder, "hubbub.toml").write_text("\n".join(settings) + "\n")
        # The folders of the user are not touched: the hub has its own data, state and settings.
        home = [f"{name}={folder}" for name in ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")]
        self._environment = ["env", *home]

    def command(self, port: int) -> list[str]:
        """Return the command that serves it."""
        config = str(self._folder / "hubbub.toml")
        return [
            *self._environment,
            *(_HUBBUB, "serve", "--config", config, "--limit", "mcp=100000/second", "--port", str(port)),
        ]

    def approve_tools(self) -> None:
        """Write a lock file with the tools of the bare server."""
        from hubbub.governance.definitions import Listing
        from hubbub.governance.pin_records import Selection
        from hubbub.governance.pins import Pins

        tools = {
            tool["name"]: {name: Raw(msgspec.json.encode(member)) for name, member in tool.items()}
            for tool in TOOLS["tools"]
        }
        pins = Pins(Path(self._folder, "hubbub.lock"), "enforce")
        pins.review({SERVER: Listing(tools=tools)})
        asyncio.run(pins.approve([Selection(server=SERVER)], "bench"))


def _policy() -> Iterator[str]:
    """A policy of 100 rules, of which the last allows the call."""
    yield '[policy]\ndefault = "deny"'
    for number in range(_OTHER_RULES):
        conditions: dict[str, Any] = {
            0: {"tenants": [f"team-{number}-*"], "tools": ["delete_*", "drop_*"]},
            1: {"servers": [f"internal-{number}*"], "scopes": [f"admin:{number}"]},
            2: {"tools": [f"{SERVER}/secret_{number}_*", f"write_{number}"]},
            3: {"users": [f"*-contractor-{number}"], "annotations": ["destructive"]},
        }[number % 4]
        effect = ("deny", "confirm", "deny", "allow")[number % 4]
        matches = "".join(f"{name} = {json.dumps(patterns)}\n" for name, patterns in conditions.items())
        yield f'[[policy.rules]]\neffect = "{effect}"\n{matches}'
    yield '[[policy.rules]]\neffect = "allow"\nservers = ["bare", "hub"]'


def _quotas(flood_limit: str) -> Iterator[str]:
    """Three quotas that count every call but are not reached, and the one that limits the flooding tenant."""
    for per in ('["tenant"]', '["tenant", "user"]', '["tenant", "tool"]'):
        yield f'[[quotas]]\nlimit = "100000/second"\nper = {per}'
    if flood_limit:
        yield f'[[quotas]]\nlimit = "{flood_limit}"\ntenants = ["{FLOODING_TENANT}"]'


@contextlib.contextmanager
def governed_hub(
    place: str, *, tenants: list[str], flood_limit: str = "", idle_s: float = 900.0
) -> Iterator[GovernedHub]:
    """Make a hub in front of this address, with its tools approved."""
    with tempfile.TemporaryDirectory() as folder:
        hub = GovernedHub(Path(folder), place, tenants=tenants, flood_limit=flood_limit, idle_s=idle_s)
        hub.approve_tools()
        yield hub
