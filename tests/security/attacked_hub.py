"""A hub with two tenants, a policy, approvals and a journal in the loop of the test, and requests in every dialect."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tests.http.eras import modern_request
from tests.http.in_process_server import RunningServer, run_server
from tests.http.keyring import Keyring
from tests.http.raw_http import JSON, Response

from hubbub import Server, ToolAnnotations, UpstreamConfig, ViewSettings
from hubbub.admin import approvals
from hubbub.admin.server import add_admin_view
from hubbub.assembly.governance import add_governor
from hubbub.governance.governor import Governor
from hubbub.governance.tenants import Tenants
from hubbub.hub.config import HubConfig
from hubbub.hub.gateway import Gateway
from hubbub.settings.governance import (
    ApprovalSettings,
    AuditSettings,
    GovernanceSettings,
    PolicyRule,
    PolicySettings,
    TenantSettings,
)

Key = dict[str, str]
FORMS: dict[str, Any] = {"elicitation": {}}


class AttackedHub(NamedTuple):
    """The hub, what its server executed, and the keys of its callers."""

    gateway: Gateway
    running: RunningServer
    executed: list[str]
    ada: Key
    """`ada` of the tenant `acme`."""
    ada_admin: Key
    """Another key of the same user, with the scope `hub:admin`."""
    carol: Key
    """Another user of the same tenant, with the scope `hub:admin`."""
    bob: Key
    """`bob` of the tenant `beta`, with the scope `hub:admin`."""
    audit: Path

    @property
    def governor(self) -> Governor:
        assert self.gateway.governor is not None
        return self.gateway.governor

    async def post(self, key: Key, body: Any, path: str = "/mcp", headers: Mapping[str, str] | None = None) -> Response:
        return await self.running.site.post(body, dict(headers or {}) | key, path=path)

    async def modern(
        self, key: Key, method: str, path: str = "/mcp", capabilities: Any = None, **params: Any
    ) -> Response:
        body, headers = modern_request(method, params, capabilities=capabilities)
        return await self.post(key, body, path, headers | {"Accept": "application/json"})

    async def call(
        self, key: Key, tool: str, path: str = "/mcp", capabilities: Any = None, **arguments: Any
    ) -> Response:
        return await self.modern(key, "tools/call", path, capabilities, name=tool, arguments=arguments)

    async def send_raw(self, key: Key, body: bytes, headers: Mapping[str, str]) -> Response:
        return await self.running.site.request("POST", "/mcp", JSON | dict(headers) | key, body)

    async def decide(self, key: Key, approval: str, tool: str = "hub.approvals.approve") -> Response:
        return await self.call(key, tool, "/mcp/admin", id=approval)

    def records(self) -> list[dict[str, Any]]:
        lines = [line for path in sorted(self.audit.glob("journal-*")) for line in path.read_bytes().split(b"\n")]
        return [json.loads(line) for line in lines if line]


def is_refused(response: Response) -> bool:
    """Whether a call failed, in any dialect."""
    if response.status >= 400 or "error" in response.json:
        return True
    result = response.json["result"]
    return isinstance(result, dict) and bool(result.get("isError"))


def find_approval(response: Response) -> str:
    """The id of the approval that a refused call waits for."""
    text = response.body.decode()
    start = text.index("apr_")
    return text[start : start + len("apr_") + 16]


def make_server(executed: list[str]) -> Server:
    server = Server("box")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    async def look(id: str = "") -> str:
        """Everyone may call this."""
        executed.append(f"look {id}")
        return f"saw {id}"

    @server.tool
    async def wipe(id: str = "") -> str:
        """A person has to approve this."""
        executed.append(f"wipe {id}")
        return "wiped"

    @server.tool
    async def hidden(id: str = "") -> str:
        """The policy denies this."""
        executed.append(f"hidden {id}")
        return "a secret"

    @server.resource("note://secret")
    async def secret() -> str:
        """The policy denies this."""
        executed.append("secret")
        return "a secret"

    @server.resource("note://public")
    async def public() -> str:
        """Everyone may read this."""
        return "public"

    return server


RULES = (
    PolicyRule(effect="deny", tools=("hidden", "note://secret")),
    PolicyRule(effect="confirm", tools=("wipe",), reason="it cannot be undone"),
)


@asynccontextmanager
async def open_attacked_hub(
    folder: Path,
    *others: UpstreamConfig,
    rules: tuple[PolicyRule, ...] = RULES,
    via: Any = "queue",
    views: Mapping[str, ViewSettings] | None = None,
    server: Server | None = None,
    **settings: Any,
) -> AsyncIterator[AttackedHub]:
    """Serve the hub until the block ends."""
    executed: list[str] = []
    tenants = (
        TenantSettings(name="acme", allow_plain=True, **settings),
        TenantSettings(name="beta", allow_plain=True, **settings),
    )
    governance = GovernanceSettings(
        tenants=tenants,
        policy=PolicySettings(rules=rules),
        approvals=ApprovalSettings(via=via),
        audit=AuditSettings(folder=str(folder / "audit")),
    )
    box = UpstreamConfig(id="box", server=server or make_server(executed))
    gateway = Gateway(HubConfig(upstreams=(box, *others), views=views or {}, governance=governance))
    add_governor(gateway)
    assert gateway.governor is not None
    assert gateway.governor.approvals is not None
    add_admin_view(gateway, [partial(approvals.register, queue=gateway.governor.approvals)])
    gateway.main_front.tenants = Tenants(tenants)
    ring = Keyring(folder / "keys.toml")
    admin = ("hub:admin",)
    keys = {
        "ada": ring.add("laptop", tenant="acme", user="ada"),
        "ada_admin": ring.add("phone", tenant="acme", user="ada", scopes=admin),
        "carol": ring.add("carol", tenant="acme", user="carol", scopes=admin),
        "bob": ring.add("bob", tenant="beta", user="bob", scopes=admin),
    }
    async with run_server(gateway.main_front, key_file=str(ring.path), limits=("off",)) as running:
        yield AttackedHub(gateway, running, executed, audit=folder / "audit", **keys)
