"""Replace what looks like a secret in a title, an address or a line on the screen. Pure.

It errs on the side of hiding harmless words rather than sending a password to a model; `secrets = false` disables it.
Each pattern runs in time linear in the length of the text.

Text recognised in a picture may have spaces in the middle of a word (`API _KEY=…`, `ghp_abc def…`). So names may have
spaces at their joints, and tokens with a known prefix may consist of several pieces.
"""

from __future__ import annotations

import re
from typing import Final

from hubbub.packs.activity import limits

SECRET_MASK: Final = "[secret]"
_VALUE_CHARACTER: Final = r"[\w./+~=-]"
_MORE_PIECES: Final = rf"(?: (?={_VALUE_CHARACTER}{{0,80}}\d){_VALUE_CHARACTER}{{3,}})*"
"""Further pieces of a value: words that contain digits."""
_VALUE: Final = rf"[^\s\"'&;,]{{3,}}{_MORE_PIECES}"
_KEY_KINDS: Final = "api|access|private|secret|encryption|signing|master|recovery|account|shared|client|license"
_CODE_KINDS: Final = "verification|security|login|access|confirmation|one-time|recovery|backup|authentication"
_SECRET_NAMES: Final = (
    rf"[a-z]{{0,8}}pass ?(?:word|wd|phrase|code)s?|pass|pwd|secret|token|(?:{_KEY_KINDS})[-_ ]{{0,3}}key"
    r"|auth|credentials?"
    rf"|session(?:[-_ ]{{0,3}}(?:id|key))?|[a-z]{{0,5}}sess(?:ion)?id|sid|sig(?:nature)?|otp|pin|cvv|cvc"
    rf"|(?:{_CODE_KINDS})[-_ ]{{0,3}}code"
)
_TRANSLATED_SECRET_NAMES: Final = (
    # German and Dutch write compounds (WLAN-Passwort), and Chinese and Japanese write no spaces: no boundary in front.
    r"passwor[dt]|kennwort|geheimzahl|(?:bestätigungs|sicherheits)code|wachtwoord|lösenord|passord|adgangskode|kodeord"
    r"|salasana|mots? de passe|code de (?:vérification|sécurité)|contrase(?:ñ|n\u0303)as?|senha|palavra-passe"
    r"|código de (?:verificación|verificação|seguridad|segurança)|codice di (?:verifica|sicurezza)"
    r"|parol[aăeы]|hasł[oa]|hesl[oa]|jelszó|şifre|slaptažodis|lozinka"
    r"|парол[ьая]|код подтверждения|κωδικός(?: πρόσβασης)?|סיסמה|كلمة (?:المرور|السر)|رمز عبور|گذرواژه|पासवर्ड"
    r"|รหัสผ่าน|mật khẩu|kata sandi"
    r"|密[码碼]|口令|验证码|驗證碼|パスワード|暗証番号|認証コード|確認コード|비밀번호|암호|인증번호|인증 ?코드"
)
_ASSIGNMENT: Final = r"(?:[:=：＝]|\b(?:is|ist|lautet|est|es|è|é)\b|是|为|為|は|은|는)"

_TOKEN_PREFIXES: Final = ((r"glpat-", 20), (r"npm ?_", 36), (r"hf ?_", 34), (r"AIza", 35), (r"github_pat_", 82))
"""Prefixes of tokens, each with the length of the remainder."""
_FIXED_LENGTH_TOKENS: Final = (
    r"gh[pousr] ?_(?:\w{36,}|\w(?: ?\w){2,35}(?!\w))",  # GitHub; nothing else begins like that
    r"(?:AKIA|ASIA)(?: ?[A-Z0-9]){16}(?![A-Za-z0-9])",  # Amazon
    *(
        rf"{prefix}(?:[\w-]{{{length},}}|(?=[\w -]{{0,{length}}}\d)[\w-](?: ?[\w-]){{7,{length - 1}}}(?![\w-]))"
        for prefix, length in _TOKEN_PREFIXES
    ),
)
_VARIABLE_LENGTH_TOKENS: Final = tuple(
    rf"{prefix}[\w-]{{{min_length},}}{_MORE_PIECES}"
    for prefix, min_length in (
        (r"(?:sk|pk|rk|whsec)[-_](?:[a-z]{2,10}[-_])?", 16),  # Stripe, OpenAI, Anthropic
        (r"(?:pypi-|dop_v1_|shp(?:at|ss|ca)_)", 16),
        (r"xox[abeoprs]-", 10),  # Slack
    )
)
_STANDALONE_SECRETS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]*",
        r"(?<![A-Za-z0-9])eyJ[\w-]{8,}(?: ?[. ] ?[\w-]{8,})+(?:\.[\w-]*)?",  # a JSON Web Token
        *(f"(?<![A-Za-z0-9]){token}" for token in (*_FIXED_LENGTH_TOKENS, *_VARIABLE_LENGTH_TOKENS)),
        r"(?i)\bauthorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?\w{1,20} [\w.~+/=-]{3,}",
        r"(?i)\bbearer (?=[a-z.~+/=_-]{0,200}\d)[\w.~+/=-]{8,}",
        r"(?<![A-Za-z0-9])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+",  # an e-mail address
    )
)
_NAMED_SECRETS: Final = tuple(
    re.compile(rf"(?i)({name}[\"']?\s{{0,3}}{_ASSIGNMENT}\s{{0,3}}[\"']?)({_VALUE})")
    for name in (rf"\b(?:[\w-]{{0,20}}[-_ ])?(?:{_SECRET_NAMES})", rf"(?:{_TRANSLATED_SECRET_NAMES})")
)
_URL_CREDENTIALS: Final = re.compile(r"(://)[^/\s:@]{1,100}:[^/\s@]{1,200}@")
_URL_PARAMETER: Final = re.compile(
    rf"(?i)([?&#;](?:[\w.-]{{0,20}}[-_.]|(?-i:[a-z]{{1,20}}(?=[A-Z])))?(?:{_SECRET_NAMES}|code|state|key)=)([^&#\s]+)"
)
_COMMAND_SECRETS: Final = tuple(
    re.compile(rf"({pattern})(\S+)")
    for pattern in (
        r"\b(?:mysql|mariadb|mycli)[\w-]{0,12}\b[^\n]{0,200}? -p(?=\S)",
        r"\bsshpass -p ?",
        r"\bredis-cli\b[^\n]{0,200}? -a ",
        r"\blogin\b[^\n]{0,200}? -p ?",  # docker, podman, helm, az
        r"\b(?:curl|wget)\b[^\n]{0,200}? (?:-u|--user)[ =]?[^\s:]{1,64}:",
        r"(?i:\s--?(?:[a-z]{1,20}-)?(?:password|passwd|passphrase|secret|token|api-?key) )(?!-)",
    )
)
_CARD: Final = re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-])")
_IBAN: Final = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b")
_LONG_TOKEN: Final = re.compile(r"(?<![A-Za-z0-9+=])[A-Za-z0-9+=]{24,}(?![A-Za-z0-9+=])")


def mask_secrets(text: str) -> str:
    """Return the text with what looks like a secret replaced."""
    for _ in range(limits.MASKING_PASSES):
        masked = _mask_once(text)
        if masked == text:
            break
        text = masked
    return text


def _mask_once(text: str) -> str:
    for pattern in _STANDALONE_SECRETS:
        text = pattern.sub(SECRET_MASK, text)
    text = _URL_CREDENTIALS.sub(rf"\1{SECRET_MASK}@", text)
    for pattern in (_URL_PARAMETER, *_NAMED_SECRETS, *_COMMAND_SECRETS):
        text = pattern.sub(rf"\1{SECRET_MASK}", text)
    text = _CARD.sub(lambda found: SECRET_MASK if _is_card(found[0]) else found[0], text)
    text = _IBAN.sub(SECRET_MASK, text)
    return _LONG_TOKEN.sub(lambda found: SECRET_MASK if _looks_random(found[0]) else found[0], text)


def _is_card(text: str) -> bool:
    """Apply the Luhn check, which one number in ten passes by chance."""
    digits = [int(letter) for letter in text if letter.isdigit()]
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _looks_random(word: str) -> bool:
    """Whether a text is long and mixes capitals, small letters and digits throughout, as keys do and words do not."""
    kinds = (any(map(str.isupper, word)), any(map(str.islower, word)), any(map(str.isdigit, word)))
    return all(kinds) and sum(map(str.isdigit, word)) >= 3
