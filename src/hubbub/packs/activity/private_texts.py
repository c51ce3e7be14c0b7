"""What looks like a secret in a title, an address or a line on the screen. Pure.

Better a harmless word too many than a password in a model's memory; whoever disagrees sets
`secrets = false`. Each pattern runs in time linear in the text, whatever is in it.
"""

from __future__ import annotations

import re
from typing import Final

SECRET: Final = "[secret]"
_VALUE: Final = r"[^\s\"'&;,]{3,}"
_NAMES: Final = (
    r"pass(?:word|wd|phrase|code)?|pwd|secret|token|api[-_ ]?key|access[-_ ]?key|auth|credential|session(?:id)?"
    r"|sig(?:nature)?|otp|pin|cvv|cvc|(?:verification|security|login|access|confirmation|one-time)[-_ ]code"
)

_WHOLE: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]*",
        r"(?<![A-Za-z0-9])eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?",  # a JSON Web Token
        r"(?<![A-Za-z0-9])(?:sk|pk|rk|whsec)[-_](?:[a-z]{2,10}[-_])?[\w-]{16,}",  # Stripe, OpenAI, Anthropic
        r"(?<![A-Za-z0-9])(?:gh[pousr]_|github_pat_|glpat-|npm_|pypi-|hf_|dop_v1_|shpat_)\w[\w-]{15,}",
        r"(?<![A-Za-z0-9])xox[abeoprs]-[\w-]{10,}",  # Slack
        r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}\b",  # Amazon
        r"(?<![A-Za-z0-9])AIza[\w-]{30,}",  # Google
        r"(?i)\bauthorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?\w{1,20} [\w.~+/=-]{3,}",
        r"(?i)\bbearer (?=[a-z.~+/=_-]{0,200}\d)[\w.~+/=-]{8,}",
        r"(?<![A-Za-z0-9])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+",  # an e-mail address
    )
)
_NAMED: Final = re.compile(
    rf"(?i)\b((?:[\w-]{{0,20}}[-_ ])?(?:{_NAMES})[\"']?\s{{0,3}}(?:[:=]|\bis\b)\s{{0,3}}[\"']?)({_VALUE})"
)
_IN_ADDRESS: Final = re.compile(r"(://)[^/\s:@]{1,100}:[^/\s@]{1,200}@")
_PARAMETER: Final = re.compile(rf"(?i)([?&#;](?:[\w.-]{{0,20}}[-_.])?(?:{_NAMES}|code|state|key)=)([^&#\s]+)")
_CARD: Final = re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-])")
_IBAN: Final = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b")
_LONG: Final = re.compile(r"(?<![A-Za-z0-9+=])[A-Za-z0-9+=]{24,}(?![A-Za-z0-9+=])")


def without_secrets(text: str) -> str:
    """The text with what looks like a secret replaced."""
    for pattern in _WHOLE:
        text = pattern.sub(SECRET, text)
    text = _IN_ADDRESS.sub(rf"\1{SECRET}@", text)
    text = _PARAMETER.sub(rf"\1{SECRET}", text)
    text = _NAMED.sub(rf"\1{SECRET}", text)
    text = _CARD.sub(lambda found: SECRET if _is_card(found[0]) else found[0], text)
    text = _IBAN.sub(SECRET, text)
    return _LONG.sub(lambda found: SECRET if _looks_random(found[0]) else found[0], text)


def _is_card(text: str) -> bool:
    """Luhn's check, which one number in ten passes by chance."""
    digits = [int(letter) for letter in text if letter.isdigit()]
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _looks_random(word: str) -> bool:
    """Long, with capitals, small letters and digits all through: nobody writes like that, but keys look so."""
    kinds = (any(map(str.isupper, word)), any(map(str.islower, word)), any(map(str.isdigit, word)))
    return all(kinds) and sum(map(str.isdigit, word)) >= 3
