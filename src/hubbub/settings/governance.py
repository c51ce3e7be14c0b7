"""Settings of a hub that many people share: tenants, policy, pins, approvals, quotas, secrets, egress and audit.

Sections of `hubbub.toml`. None of them is harmless, so an untrusted folder's file can set none. The descriptions of the
fields are used in documentation.
"""

import re
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from hubbub.settings import sources
from hubbub.settings.fields import setting

TENANTS: Final = sources.TENANTS
POLICY: Final = "policy"
PINS: Final = "pins"
APPROVALS: Final = "approvals"
QUOTAS: Final = "quotas"
SECRETS: Final = "secrets"
EGRESS: Final = "egress"
AUDIT: Final = "audit"

TenantName: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[a-z0-9][a-z0-9-]{0,62}$",
        extra={"expected": "1 to 63 characters of a-z, 0-9 and `-`, the first not `-`"},
    ),
]
SECRET_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
SECRET_SOURCES: Final = ("env", "file", "keyring", "command")
Patterns: TypeAlias = tuple[str, ...]
Days: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
Effect: TypeAlias = Literal["allow", "deny", "confirm"]
AnnotationName: TypeAlias = Literal[
    "read_only", "destructive", "idempotent", "open_world",
    "!read_only", "!destructive", "!idempotent", "!open_world",
]  # fmt: skip
ActionName: TypeAlias = Literal["list", "call", "search", "read", "get", "complete", "subscribe", "admin"]


class TenantSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tenant: a table of `[[tenants]]`. Any tenant switches tenants on."""

    name: Annotated[TenantName, setting("Its name, in keys, claims, rules and records.", form="a-z0-9-")]
    claims: Annotated[
        tuple[Annotated[str, msgspec.Meta(min_length=1)], ...],
        setting("Values of the tokens' tenant claim that mean this tenant. Default: its name.", form="VALUE"),
    ] = ()
    servers: Annotated[
        tuple[str, ...] | None, setting("The servers that its users may use. Default: all.", form="NAME")
    ] = None
    allow_plain: Annotated[bool, setting("Whether its users may send JSON-RPC without MCP.")] = False
    allow_stdio: Annotated[
        bool, setting("Whether its users may use servers that the hub starts as programs; each gets its own process.")
    ] = False
    max_sessions: Annotated[int, setting("The largest number of sessions with servers, over all its users.", ge=1)] = (
        256
    )
    max_processes: Annotated[int, setting("How many of these may be programs.", ge=1)] = 32
    max_calls: Annotated[int, setting("The largest number of concurrent calls, over all its users.", ge=1)] = 256
    session_idle_s: Annotated[float, setting("Seconds until an unused session with a server ends.", gt=0)] = 900.0
    session_max_s: Annotated[
        float, setting("Seconds until a session with a server is replaced by a new one, used or not.", gt=0)
    ] = 3600.0

    @property
    def accepted_claims(self) -> tuple[str, ...]:
        """The values of the tenant claim that mean this tenant."""
        return self.claims or (self.name,)


class PolicyRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule: a table of `[[policy.rules]]`. It matches if every pattern list that is given has a match."""

    effect: Annotated[Effect, setting("What happens to a matching request.")]
    tenants: Annotated[Patterns, setting("Patterns of tenants.", form="PATTERN")] = ()
    users: Annotated[Patterns, setting("Patterns of users.", form="PATTERN")] = ()
    scopes: Annotated[Patterns, setting("Patterns of scopes, one of which the caller has.", form="PATTERN")] = ()
    servers: Annotated[Patterns, setting("Patterns of servers; `hub` is the hub itself.", form="PATTERN")] = ()
    tools: Annotated[
        Patterns,
        setting(
            "Patterns of tools, prompts or resource URIs, by their names on the server, or of SERVER/NAME.",
            form="PATTERN",
        ),
    ] = ()
    annotations: Annotated[
        tuple[AnnotationName, ...],
        setting(
            "Hints, one of which the tool has: read_only, destructive, idempotent, open_world; `!` negates.",
            form="HINT",
        ),
    ] = ()
    actions: Annotated[
        tuple[ActionName, ...],
        setting(
            "What the caller wants to do: call, get, read, admin, list, search, complete, subscribe. Default: all.",
            form="ACTION",
        ),
    ] = ()
    reason: Annotated[
        str, setting("Why, for audit records and `hubbub policy`; with confirm, callers and approvers read it, too.")
    ] = ""


class PolicySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Who may do what: `[policy]`."""

    engine: Annotated[Literal["rules", "cedar"], setting("Whether `rules` or the Cedar policies in `file` decide.")] = (
        "rules"
    )
    file: Annotated[str | None, setting("A file of Cedar policies.", form="FILE", names_file=True)] = None
    default: Annotated[
        Literal["allow", "deny"], setting("What happens if no rule matches; Cedar denies it always.")
    ] = "allow"
    rules: Annotated[
        tuple[PolicyRule, ...], setting("The rules; the first that matches decides.", form="[[table]]")
    ] = ()

    def __post_init__(self) -> None:
        # What is ignored might be what protects a server.
        if self.engine == "cedar" and self.file is None:
            raise ValueError("engine is cedar, so `file` must name a file of Cedar policies")
        if self.engine == "cedar" and self.rules:
            raise ValueError('engine is cedar, so `rules` would be ignored; remove them or set engine = "rules"')
        if self.engine == "rules" and self.file is not None:
            raise ValueError('file would be ignored; set engine = "cedar" or remove it')


class PinSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Approved definitions of tools, prompts and resource templates: `[pins]`."""

    mode: Annotated[
        Literal["off", "warn", "enforce"],
        setting("Whether definitions that are not in the lock file are hidden (enforce), reported (warn) or ignored."),
    ] = "off"
    file: Annotated[
        str | None,
        setting("The lock file. Default: hubbub.lock beside the settings file.", form="FILE", names_file=True),
    ] = None


class ApprovalSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How people approve calls that the policy marks with `confirm`: `[approvals]`."""

    via: Annotated[
        Literal["auto", "client", "queue"],
        setting(
            "Where a person is asked: in the caller's client, in the hub's queue, or (auto) in the client if it can."
        ),
    ] = "auto"
    expires_s: Annotated[float, setting("Seconds until an approval or a request for one expires.", gt=0)] = 600.0
    max_pending: Annotated[int, setting("The largest number of requests that wait for a person.", ge=1)] = 1000


class QuotaSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One limit: a table of `[[quotas]]`. Each combination of the parts in `per` is counted on its own."""

    limit: Annotated[str, setting("How many calls in which time, such as 100/minute.", form="N/UNIT")]
    per: Annotated[
        tuple[Literal["tenant", "user", "server", "tool"], ...],
        setting("What is counted on its own.", form="tenant|user|server|tool"),
    ] = ("tenant",)
    tenants: Annotated[Patterns, setting("Patterns of tenants that it applies to.", form="PATTERN")] = ()
    users: Annotated[Patterns, setting("Patterns of users.", form="PATTERN")] = ()
    servers: Annotated[Patterns, setting("Patterns of servers.", form="PATTERN")] = ()
    tools: Annotated[Patterns, setting("Patterns of tools, by their names on the server.", form="PATTERN")] = ()


class SecretSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the value of a secret comes from: exactly one of these."""

    env: Annotated[str | None, setting("An environment variable of the hub.", form="NAME")] = None
    file: Annotated[str | None, setting("A file; its last line break is removed.", form="FILE", names_file=True)] = None
    keyring: Annotated[str | None, setting("An entry of the system's keyring.", form="SERVICE/USER")] = None
    command: Annotated[tuple[str, ...] | None, setting("A program that prints it.", form="PROGRAM")] = None

    def __post_init__(self) -> None:
        if self.source_kind == "":
            raise ValueError("set one of env, file, keyring and command")
        self.check_source()

    @property
    def source_kind(self) -> str:
        """Which of the sources is set; empty if none is."""
        return next((kind for kind in SECRET_SOURCES if getattr(self, kind) is not None), "")

    def check_source(self) -> None:
        """Raises: ValueError, if two sources are set or one is empty."""
        if sum(getattr(self, kind) is not None for kind in SECRET_SOURCES) > 1:
            raise ValueError("set only one of env, file, keyring and command")
        if self.source_kind and not getattr(self, self.source_kind):
            raise ValueError(f"{self.source_kind} must not be empty")
        if self.keyring is not None and not all(self.keyring.partition("/")):
            raise ValueError("keyring must look like SERVICE/USER")


class SecretSettings(SecretSource, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One secret, `[secrets.NAME]`; `${secret:NAME}` in headers and variables of servers refers to it."""

    tenants: Annotated[
        tuple[str, ...] | None,
        setting("The tenants for which it may be used, besides those with another source. Default: all.", form="NAME"),
    ] = None
    hub: Annotated[
        bool | None,
        setting("Whether the hub itself may use it, to read lists. Default: only if `tenants` is not set."),
    ] = None
    tenant: Annotated[
        dict[str, SecretSource], setting("Other sources for single tenants, by name.", form="[section]")
    ] = {}
    refresh_s: Annotated[float, setting("Seconds after which it is read again.", gt=0)] = 60.0

    def __post_init__(self) -> None:
        if not self.tenant and not self.source_kind:
            raise ValueError("set one of env, file, keyring and command")
        self.check_source()

    def allows(self, tenant: str | None) -> bool:
        """Whether it may be used for a tenant; None is the hub itself."""
        if tenant is None:
            return self.tenants is None if self.hub is None else self.hub
        if not self.source_kind:
            return tenant in self.tenant
        return tenant in self.tenant or self.tenants is None or tenant in self.tenants

    def source_for(self, tenant: str | None) -> SecretSource | None:
        """Where its value for a tenant comes from; None: nowhere."""
        found = self.tenant.get(tenant) if tenant is not None else None
        return found or (self if self.source_kind else None)


class EgressSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which addresses the hub may connect to: `[egress]`."""

    allow: Annotated[
        tuple[str, ...] | None,
        setting(
            "The only hosts that the hub connects to. Default: all.",
            form="HOST[:PORT]",
        ),
    ] = None
    proxy: Annotated[str | None, setting("An HTTP proxy that all connections go through.", form="URL")] = None


class AuditSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The journal of decisions and calls: `[audit]`."""

    folder: Annotated[
        str | None,
        setting(
            "The folder of the journal. Default: `audit` in the data folder, if there are tenants.",
            form="FOLDER",
            names_file=True,
        ),
    ] = None
    node: Annotated[
        str | None,
        setting(
            "The name of this node in its records. Default: the host name and a random part, stored in the folder.",
            form="NAME",
        ),
    ] = None
    sync: Annotated[
        Literal["batch", "each", "off"],
        setting("When records are flushed to the disk before the call runs: in groups, one by one, or not at all."),
    ] = "batch"
    on_failure: Annotated[
        Literal["refuse", "continue"], setting("What happens to calls if the journal cannot be written.")
    ] = "refuse"
    segment_bytes: Annotated[int, setting("The size at which a file of the journal is sealed.", ge=4096)] = (
        64 * 1024 * 1024
    )
    retention_days: Annotated[
        Days | None, setting("Days after which sealed files are deleted. Default: never.", form="N")
    ] = None
    signing_key_file: Annotated[
        str | None,
        setting("An Ed25519 private key (PEM) that signs the head of the journal.", form="FILE", names_file=True),
    ] = None
    head_interval_s: Annotated[
        float, setting("Seconds between two heads, which `head.json` and `anchor_command` get.", gt=0)
    ] = 60.0
    anchor_command: Annotated[
        tuple[str, ...],
        setting("A program that stores each head elsewhere; it gets the head as JSON on stdin.", form="PROGRAM"),
    ] = ()
    archive_command: Annotated[
        tuple[str, ...],
        setting(
            "A program that copies each sealed journal file to other storage; `{path}` and `{name}` in its arguments "
            "stand for the file. A file expires only after its copy succeeded.",
            form="PROGRAM",
        ),
    ] = ()
    database: Annotated[
        str | None, setting("A PostgreSQL database that records are copied to.", form="postgresql://…")
    ] = None


SECTIONS: Final[dict[str, type[msgspec.Struct]]] = {
    POLICY: PolicySettings,
    PINS: PinSettings,
    APPROVALS: ApprovalSettings,
    EGRESS: EgressSettings,
    AUDIT: AuditSettings,
}
"""Sections with one table."""
NAMED_SECTIONS: Final[dict[str, type[msgspec.Struct]]] = {SECRETS: SecretSettings}
"""Sections with one table for each name."""
LIST_SECTIONS: Final[dict[str, type[msgspec.Struct]]] = {TENANTS: TenantSettings, QUOTAS: QuotaSettings}
"""Arrays of tables."""


class GovernanceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The sections of `hubbub.toml` about a hub that many people share."""

    tenants: tuple[TenantSettings, ...] = ()
    policy: PolicySettings = PolicySettings()
    pins: PinSettings = PinSettings()
    approvals: ApprovalSettings = ApprovalSettings()
    quotas: tuple[QuotaSettings, ...] = ()
    secrets: dict[str, SecretSettings] = {}
    egress: EgressSettings = EgressSettings()
    audit: AuditSettings = AuditSettings()

    @property
    def has_tenants(self) -> bool:
        """Whether callers belong to tenants."""
        return bool(self.tenants)


NO_GOVERNANCE: Final = GovernanceSettings()
