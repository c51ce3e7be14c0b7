import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.security.redact import MASK, redact

WORDS = st.text("abcdefghijkmnopqrstuvwxyz ", max_size=20)
SECRETS = st.text("ABCDEFGHJKLMNPQRSTUVWXYZ23456789", min_size=20, max_size=40)
PLACES = [
    "postgresql://admin:{}@db.example:5432/app",
    "redis://:{}@cache",
    "amqp://user:with@sign{}@host/",
    "Authorization: Bearer {}",
    "authorization: basic {}",
    "Token {}",
    "password={}",
    "PASSWORD = {};",
    "passwd:{}",
    "pwd={};Server=x",
    '{{"password": "{}"}}',
    '{{"password": "two words {}"}}',
    '{{"password": "a quote \\" and {}"}}',
    '{{\\"password\\": \\"{}\\"}}',
    "{{'client_secret': '{}'}}",
    "AWS_SECRET_ACCESS_KEY={}",
    "SECRET_KEY='{}'",
    "?api_key={}&page=2",
    "x-api-key: {}",
    "access_token={}",
    "auth-token: {}",
    "token={}",
    '"token": "{}"',
    "private_key={}",
    "passphrase: {}",
    "eyJhbGciOiJI.eyJzdWIiOiIx.{}",
    "sk-{}",
    "sk_live_{}",
    "ghp_{}",
    "github_pat_{}",
    "xoxb-{}",
    "glpat-{}",
    "AKIA{}",
    "hf_{}",
    "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\n{}",
]


@pytest.mark.parametrize("place", PLACES)
@given(before=WORDS, secret=SECRETS, after=WORDS)
def test_secrets_are_redacted_everywhere(place: str, before: str, secret: str, after: str) -> None:
    redacted = redact(f"{before} {place.format(secret)} {after}")
    assert secret not in redacted
    assert MASK in redacted


@pytest.mark.parametrize("scheme", ["bearer", "Basic", "token"])
@pytest.mark.parametrize("place", PLACES)
def test_the_name_of_a_scheme_before_a_secret_does_not_protect_it(place: str, scheme: str) -> None:
    secret = "K7" * 20
    assert secret not in redact(f"{scheme} {place.format(secret)}")
    assert secret not in redact(f"api_key: {scheme} {secret}")
    assert secret not in redact(f"password: -----BEGIN PRIVATE KEY-----\n{secret}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing to hide here",
        "Unexpected token: < at position 3",
        "connect to http://localhost:3000/mcp failed",
        "a skeleton-of-everything-in-one-word",
        "the basic idea of the password rules",
        "user@example.com wrote",
        "git clone ssh://git@host/path",
        "2026-07-28T10:00:00Z and key=value",
    ],
)
def test_text_without_secrets_is_unchanged(text: str) -> None:
    assert redact(text) == text


def test_the_rest_of_a_message_stays_readable() -> None:
    assert redact("connect to postgresql://app:hunter2@db:5432/app failed") == (
        f"connect to postgresql://{MASK}@db:5432/app failed"
    )
    assert redact("401 with Authorization: Bearer abcdefghijkl, try again") == (
        f"401 with Authorization: Bearer {MASK}, try again"
    )


@given(st.text(max_size=200))
def test_redacting_is_idempotent(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@pytest.mark.parametrize(
    "part",
    ["a-", "eyJaaaaaaaaa-", "eyJaaaaaaaa.", "password ", "password=", 'password="', "://", "://a:", "://a:b@",
     "bearer ", "secret-", "token", "-----BEGIN PRIVATE KEY-----", "sk-", "\\", '"', " "],
)  # fmt: skip
def test_long_text_takes_linear_time(part: str) -> None:
    # No clock is needed: quadratic time takes minutes for this length, longer than the timeout of a test.
    assert redact(part * (400_000 // len(part)))
