"""Assigns the names under which clients see what many servers have. No I/O.

A name stays as its server gave it unless two servers have the same; then both get their server's prefix
(`github__search`), and a call of the bare name fails with a list of the names that it could mean. The prefixed form
can always be called, so a name that begins with another server's prefix gets its own in front. The result depends on
the names of the servers and their order in the file, never on which server connected first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

SEPARATOR: Final = "__"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]")
_NOT_IN_SCHEME: Final = re.compile(r"[^A-Za-z0-9.-]")
_DIGEST_CHARACTERS: Final = 6
_MAX_DIGEST_CHARACTERS: Final = 64

PrefixMode: TypeAlias = Literal["collision", "always", "never"]


class Offer(NamedTuple):
    """A tool or prompt of one server, by its own name there."""

    server: str
    name: str


class NamingRule(msgspec.Struct, frozen=True):
    """How the names of one server are made."""

    prefix: PrefixMode = "collision"
    prefix_text: str | None = None
    renamed: Mapping[str, str] = {}
    """Names that the user configured, by the server's own."""


class Collision(msgspec.Struct, frozen=True):
    """A name that several servers have."""

    name: str
    servers: tuple[str, ...]
    listed: tuple[str, ...]
    """The name that each gets instead; empty for one that is not listed."""


class Names(msgspec.Struct, frozen=True):
    """The assigned names."""

    listed: dict[Offer, str]
    """In the order of the offers, without those whose name an earlier one keeps."""
    callable: dict[str, Offer]
    """Every name that means exactly one offer: listed, prefixed and not shortened ones."""
    ambiguous: dict[str, tuple[str, ...]]
    """Ambiguous names, with the listed names of the offers that they could mean."""
    collisions: tuple[Collision, ...]
    preferred: dict[Offer, str] = {}
    """The name of each without collisions and without the length limit."""
    keepers: frozenset[Offer] = frozenset()
    """Those that get no prefix."""
    shared_names: dict[str, tuple[Offer, ...]] = {}
    """Names that several offers would have without the others; an offer without a name stands for a server's prefix."""


class NameStyle(msgspec.Struct, frozen=True):
    """Limits on the length and characters of names."""

    limit: int
    safe: bool = False
    """Only letters, digits, `_` and `-`."""

    def apply(self, name: str) -> str:
        """Shorten and replace characters as this style requires."""
        if len(name) <= self.limit and not self.safe:
            return name
        return shorten(_UNSAFE.sub("_", name) if self.safe else name, self.limit)


def assign_names(offers: Sequence[Offer], rules: Mapping[str, NamingRule], style: NameStyle) -> Names:
    """Assign a name to each offer; offers are in the order of the file."""
    preferred = {offer: _preferred_name(offer, rules[offer.server]) for offer in offers}
    groups: dict[str, list[Offer]] = {}
    for offer, name in preferred.items():
        groups.setdefault(style.apply(name), []).append(offer)
    assigned: dict[Offer, str] = {}
    prefixed: list[Offer] = []
    foreign_prefixed = _find_names_with_foreign_prefix(preferred, rules)
    for name, group in groups.items():
        if len(group) == 1 and group[0] not in foreign_prefixed:
            assigned[group[0]] = name
            continue
        name_owner = _find_name_owner(group, rules)
        if name_owner is not None:
            assigned[name_owner] = name
        prefixed += [offer for offer in group if offer is not name_owner and not _is_fixed(offer, rules)]
    taken = set(assigned.values())
    claims = {offer: style.apply(prefixed_name(offer, rules[offer.server])) for offer in prefixed}
    claimed = Counter(claims.values())
    for offer, name in claims.items():
        if claimed[name] > 1 or name in taken:  # Servers may have names that look prefixed already.
            name = _unique_with_digest(name, offer, taken, style.limit)
        assigned[offer] = name
        taken.add(name)
    listed = {offer: assigned[offer] for offer in preferred if offer in assigned}
    names, ambiguous = _callable_names(listed, preferred, rules, style, foreign_prefixed)
    shared_names: dict[str, tuple[Offer, ...]] = {}
    for name, group in groups.items():
        owners = dict.fromkeys(Offer(server, "") for offer in group for server in foreign_prefixed.get(offer, ()))
        if len(group) > 1 or owners:
            shared_names[name] = (*group, *owners)
    keepers = frozenset(offer for offer in preferred if _is_fixed(offer, rules))
    return Names(listed, names, ambiguous, _collisions(groups, assigned), preferred, keepers, shared_names)


def prefixed_name(offer: Offer, rule: NamingRule) -> str:
    """`server__tool`"""
    return f"{name_prefix(offer.server, rule)}{SEPARATOR}{rule.renamed.get(offer.name, offer.name)}"


def name_prefix(server: str, rule: NamingRule) -> str:
    """The prefix of a server's names, without the separator."""
    return rule.prefix_text if rule.prefix_text is not None else _UNSAFE.sub("_", server)


def uri_scheme(server: str) -> str:
    """The prefix of a server's URIs, with only the characters that a scheme allows."""
    name = _NOT_IN_SCHEME.sub("-", server).lower()
    return name if name[:1].isalpha() else f"s{name}"


def shorten(name: str, limit: int, digest: int = _DIGEST_CHARACTERS) -> str:
    """Shorten a name to the limit; a shortened name ends with a digest of the full name."""
    return name if len(name) <= limit else _with_digest(name, name, limit, digest)


def _with_digest(name: str, full_text: str, limit: int, digest: int) -> str:
    from hashlib import sha256  # Names are seldom this long.

    suffix = sha256(full_text.encode(errors="surrogatepass")).hexdigest()[:digest]
    return f"{name[: max(0, limit - digest - 1)]}_{suffix}"


def _preferred_name(offer: Offer, rule: NamingRule) -> str:
    if offer.name in rule.renamed:
        return rule.renamed[offer.name]
    return prefixed_name(offer, rule) if rule.prefix == "always" else offer.name


def _is_fixed(offer: Offer, rules: Mapping[str, NamingRule]) -> bool:
    """Whether the config rules out a prefix for this name."""
    rule = rules[offer.server]
    return rule.prefix == "never" or offer.name in rule.renamed


def _find_name_owner(group: list[Offer], rules: Mapping[str, NamingRule]) -> Offer | None:
    """The offer that keeps a shared name: the first whose name is fixed, or None."""
    return next((offer for offer in group if _is_fixed(offer, rules)), None)


def _find_names_with_foreign_prefix(
    preferred: Mapping[Offer, str], rules: Mapping[str, NamingRule]
) -> dict[Offer, tuple[str, ...]]:
    """Offers whose name begins with another server's prefix, and these servers: `github__search` must always mean the
    server `github`."""
    server_prefixes = {server: tuple(_accepted_prefixes(server, rule)) for server, rule in rules.items()}
    found = {}
    for offer, name in preferred.items():
        if SEPARATOR not in name or _is_fixed(offer, rules) or name.startswith(server_prefixes[offer.server]):
            continue
        owners = tuple(server for server, prefixes in server_prefixes.items() if name.startswith(prefixes))
        if owners:
            found[offer] = owners
    return found


def _unique_with_digest(name: str, offer: Offer, taken: set[str], limit: int) -> str:
    """Append a digest of the offer to a name, as long as needed to make it unique."""
    for digest in range(_DIGEST_CHARACTERS, _MAX_DIGEST_CHARACTERS):
        unique_name = _with_digest(name, "\0".join(offer), max(limit, digest + 1), digest)
        if unique_name not in taken:
            return unique_name
    raise AssertionError("two digests of 256 bits are the same")


def _callable_names(
    listed: dict[Offer, str],
    preferred: dict[Offer, str],
    rules: Mapping[str, NamingRule],
    style: NameStyle,
    foreign_prefixed: Container[Offer],
) -> tuple[dict[str, Offer], dict[str, tuple[str, ...]]]:
    found = {name: offer for offer, name in listed.items()}
    by_alias: dict[str, Offer] = {}
    ambiguous_offers: dict[str, dict[Offer, None]] = {}
    server_prefixes = {server: _accepted_prefixes(server, rule) for server, rule in rules.items()}
    for offer, name in preferred.items():
        base = rules[offer.server].renamed.get(offer.name, offer.name)
        aliases = [server_prefix + base for server_prefix in server_prefixes[offer.server]]
        bare = () if offer in foreign_prefixed else (name,)
        for alias in (*bare, *aliases, style.apply(aliases[0])):
            if alias in found:
                continue
            other = by_alias.setdefault(alias, offer)
            if other is not offer:
                ambiguous_offers.setdefault(alias, {other: None})[offer] = None
    found |= {alias: offer for alias, offer in by_alias.items() if alias not in ambiguous_offers}
    ambiguous = {
        alias: tuple(listed[offer] for offer in offers if offer in listed) for alias, offers in ambiguous_offers.items()
    }
    return found, ambiguous


def _accepted_prefixes(server: str, rule: NamingRule) -> list[str]:
    """The prefixes that are accepted for a server, with the separator."""
    prefixes = dict.fromkeys((name_prefix(server, rule), name_prefix(server, NamingRule())))
    return [prefix + SEPARATOR for prefix in prefixes]


def _collisions(groups: Mapping[str, Sequence[Offer]], assigned: Mapping[Offer, str]) -> tuple[Collision, ...]:
    found = []
    for name, group in groups.items():
        if len(group) > 1:
            servers = tuple(offer.server for offer in group)
            found.append(Collision(name, servers, tuple(assigned.get(offer, "") for offer in group)))
    return tuple(found)
