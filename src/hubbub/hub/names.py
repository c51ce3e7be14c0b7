"""Assigns the names under which clients see what many servers have. No I/O.

A name stays as its server gave it unless two servers have the same; then both get their server's prefix
(`github__search`), and a call of the bare name fails with a list of the names that it could mean. The prefixed form
can always be called, so a name that begins with another server's prefix gets its own in front. The result depends on
the names of the servers and their order in the file, never on which server connected first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

SEPARATOR: Final = "__"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]")
_NO_SCHEME: Final = re.compile(r"[^A-Za-z0-9.-]")
_DIGEST_CHARACTERS: Final = 6
_MOST_DIGEST_CHARACTERS: Final = 64

Prefixing: TypeAlias = Literal["collision", "always", "never"]


class Offer(NamedTuple):
    """A tool or prompt of one server, by its own name there."""

    server: str
    name: str


class Rule(msgspec.Struct, frozen=True):
    """How the names of one server are made."""

    prefix: Prefixing = "collision"
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
    wanted: dict[Offer, str] = {}
    """The name of each without collisions and without the length limit."""


class Style(msgspec.Struct, frozen=True):
    """Limits on the length and characters of names."""

    limit: int
    safe: bool = False
    """Only letters, digits, `_` and `-`."""

    def shown(self, name: str) -> str:
        """Shorten and replace characters as this style requires."""
        if len(name) <= self.limit and not self.safe:
            return name
        return cut(_UNSAFE.sub("_", name) if self.safe else name, self.limit)


def assign(offers: Sequence[Offer], rules: Mapping[str, Rule], style: Style) -> Names:
    """Assign a name to each offer; offers are in the order of the file."""
    wanted = {offer: _wanted(offer, rules[offer.server]) for offer in offers}
    groups: dict[str, list[Offer]] = {}
    for offer, name in wanted.items():
        groups.setdefault(style.shown(name), []).append(offer)
    given: dict[Offer, str] = {}
    prefixed: list[Offer] = []
    foreign = _looking_foreign(wanted, rules)
    for name, group in groups.items():
        if len(group) == 1 and group[0] not in foreign:
            given[group[0]] = name
            continue
        winner = _winner(group, rules)
        if winner is not None:
            given[winner] = name
        prefixed += [offer for offer in group if offer is not winner and not _is_fixed(offer, rules)]
    taken = set(given.values())
    claims = {offer: style.shown(long_name(offer, rules[offer.server])) for offer in prefixed}
    claimed = Counter(claims.values())
    for offer, name in claims.items():
        if claimed[name] > 1 or name in taken:  # Servers may have names that look prefixed already.
            name = _marked_free(name, offer, taken, style.limit)
        given[offer] = name
        taken.add(name)
    listed = {offer: given[offer] for offer in wanted if offer in given}
    names, ambiguous = _callable(listed, wanted, rules, style, foreign)
    return Names(listed, names, ambiguous, _collisions(groups, given), wanted)


def long_name(offer: Offer, rule: Rule) -> str:
    """`server__tool`"""
    return f"{prefix_of(offer.server, rule)}{SEPARATOR}{rule.renamed.get(offer.name, offer.name)}"


def prefix_of(server: str, rule: Rule) -> str:
    """The prefix of a server's names, without the separator."""
    return rule.prefix_text if rule.prefix_text is not None else _UNSAFE.sub("_", server)


def scheme_of(server: str) -> str:
    """The prefix of a server's URIs, with only the characters that a scheme allows."""
    name = _NO_SCHEME.sub("-", server).lower()
    return name if name[:1].isalpha() else f"s{name}"


def cut(name: str, limit: int, digest: int = _DIGEST_CHARACTERS) -> str:
    """Shorten a name to the limit; a shortened name ends with a digest of the whole."""
    return name if len(name) <= limit else _marked(name, name, limit, digest)


def _marked(name: str, whole: str, limit: int, digest: int) -> str:
    from hashlib import sha256  # Names are seldom this long.

    mark = sha256(whole.encode(errors="surrogatepass")).hexdigest()[:digest]
    return f"{name[: max(0, limit - digest - 1)]}_{mark}"


def _wanted(offer: Offer, rule: Rule) -> str:
    if offer.name in rule.renamed:
        return rule.renamed[offer.name]
    return long_name(offer, rule) if rule.prefix == "always" else offer.name


def _is_fixed(offer: Offer, rules: Mapping[str, Rule]) -> bool:
    """Whether the config rules out a prefix for this name."""
    rule = rules[offer.server]
    return rule.prefix == "never" or offer.name in rule.renamed


def _winner(group: list[Offer], rules: Mapping[str, Rule]) -> Offer | None:
    """The offer that keeps a contested name: the first whose name is fixed, or None."""
    return next((offer for offer in group if _is_fixed(offer, rules)), None)


def _looking_foreign(wanted: Mapping[Offer, str], rules: Mapping[str, Rule]) -> Set[Offer]:
    """Offers whose name begins with another server's prefix: `github__search` must always mean the server `github`."""
    fronts = {server: tuple(_fronts(server, rule)) for server, rule in rules.items()}
    found = set()
    for offer, name in wanted.items():
        if SEPARATOR not in name or _is_fixed(offer, rules) or name.startswith(fronts[offer.server]):
            continue
        if any(name.startswith(others) for others in fronts.values()):
            found.add(offer)
    return found


def _marked_free(name: str, offer: Offer, taken: set[str], limit: int) -> str:
    """Append a digest of the offer to a name, as long as needed to make it unique."""
    for digest in range(_DIGEST_CHARACTERS, _MOST_DIGEST_CHARACTERS):
        marked = _marked(name, "\0".join(offer), max(limit, digest + 1), digest)
        if marked not in taken:
            return marked
    raise AssertionError("two digests of 256 bits are the same")


def _callable(
    listed: dict[Offer, str],
    wanted: dict[Offer, str],
    rules: Mapping[str, Rule],
    style: Style,
    foreign: Set[Offer],
) -> tuple[dict[str, Offer], dict[str, tuple[str, ...]]]:
    found = {name: offer for offer, name in listed.items()}
    also: dict[str, Offer] = {}
    doubtful: dict[str, dict[Offer, None]] = {}
    fronts = {server: _fronts(server, rule) for server, rule in rules.items()}
    for offer, name in wanted.items():
        base = rules[offer.server].renamed.get(offer.name, offer.name)
        aliases = [front + base for front in fronts[offer.server]]
        bare = () if offer in foreign else (name,)
        for alias in (*bare, *aliases, style.shown(aliases[0])):
            if alias in found:
                continue
            other = also.setdefault(alias, offer)
            if other is not offer:
                doubtful.setdefault(alias, {other: None})[offer] = None
    found |= {alias: offer for alias, offer in also.items() if alias not in doubtful}
    ambiguous = {
        alias: tuple(listed[offer] for offer in offers if offer in listed) for alias, offers in doubtful.items()
    }
    return found, ambiguous


def _fronts(server: str, rule: Rule) -> list[str]:
    """The prefixes that are accepted for a server, with the separator."""
    prefixes = dict.fromkeys((prefix_of(server, rule), prefix_of(server, Rule())))
    return [prefix + SEPARATOR for prefix in prefixes]


def _collisions(groups: Mapping[str, Sequence[Offer]], given: Mapping[Offer, str]) -> tuple[Collision, ...]:
    found = []
    for name, group in groups.items():
        if len(group) > 1:
            servers = tuple(offer.server for offer in group)
            found.append(Collision(name, servers, tuple(given.get(offer, "") for offer in group)))
    return tuple(found)
