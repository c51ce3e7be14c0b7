"""Secrets are masked in recognised text, commands, URLs and other languages."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.clock import measure_cpu_s

from hubbub.packs.activity import limits
from hubbub.packs.activity.secret_patterns import SECRET_MASK, mask_secrets

WORDS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
FRAGMENTS = (
    "password", "pass word", "API", "_KEY", " ", "  ", "=", ":", "ghp_", "ghp _", "abc", "def1", "12345678",
    "eyJabcdefgh", ".", "mysql", " -p", "--token ", "密码", "：", "mot de passe", "AKIA", "ABCD", "?", "&",
    "session_id", "://", "@", "\n", "is", "hunter2", "[secret]", "'", "sk-", "curl -u a:", "login",
)  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "API _KEY=hunter2",
        "API_ KEY = hunter2",
        "SECRET _ACCESS _KEY: hunter2",
        "export DB _PASSWORD=hunter2",
        "pass word: hunter2",
        "PGPASSWORD=hunter2 psql",
        "https://example.org/?session_id=hunter2&x=1",
        "https://example.org/?PHPSESSID=hunter2",
        "https://example.org/?sessionToken=hunter2",
        "mysql -u root -phunter2 shop",
        "mysqldump --all -phunter2",
        "sshpass -p hunter2 ssh example.org",
        "docker login -u ann -p hunter2",
        "curl -s -u ann:hunter2 https://example.org",
        "redis-cli -h example.org -a hunter2",
        "tool --api-key hunter2 --more",
        "Passwort: hunter2",
        "WLAN-Passwort ist hunter2",
        "mot de passe : hunter2",
        "contraseña: hunter2",
        "contrasen\u0303a: hunter2",
        "senha = hunter2",
        "wachtwoord: hunter2",
        "hasło: hunter2",
        "пароль: hunter2",
        "κωδικός πρόσβασης: hunter2",
        "你的密码：hunter2",
        "密碼是 hunter2",
        "パスワードはhunter2",
        "비밀번호: hunter2",
        "كلمة المرور: hunter2",
        "mật khẩu: hunter2",
    ],
)
def test_a_password_is_masked_in_every_spelling(text: str) -> None:
    masked = mask_secrets(f"before {text}")
    assert "hunter2" not in masked
    assert masked.startswith("before ")


@pytest.mark.parametrize(
    "text",
    [
        "Compass directions",
        "npm_config_cache is a folder",
        "The login page of the shop",
        "mysql -u root -h example.org",
        "How to reset a password",
        "Passwort vergessen?",
        "密码学导论",
        "https://example.org/?session=",
        "KeePassXC user guide",
        "curl --silent https://example.org",
    ],
)
def test_text_without_a_secret_is_unchanged(text: str) -> None:
    assert mask_secrets(text) == text


@given(
    st.sampled_from(("ghp_", "gho_", "ghp _")),
    st.text(WORDS, min_size=36, max_size=36),
    st.sets(st.integers(1, 35), max_size=4),
)
def test_a_token_split_by_spaces_is_masked_completely(prefix: str, token: str, cuts: set[int]) -> None:
    """Text recognition puts spaces into long words."""
    places = [0, *sorted(cuts), len(token)]
    pieces = [token[start:end] for start, end in pairwise(places)]
    assert mask_secrets(f"my {prefix}{' '.join(pieces)}") == f"my {SECRET_MASK}"


@given(st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", min_size=16, max_size=16), st.integers(1, 15))
def test_an_aws_key_split_in_two_is_masked(token: str, cut: int) -> None:
    assert mask_secrets(f"my AKIA{token[:cut]} {token[cut:]}!") == f"my {SECRET_MASK}!"


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=20).map("".join))
def test_masking_is_idempotent(text: str) -> None:
    once = mask_secrets(text)
    assert mask_secrets(once) == once


@pytest.mark.parametrize(
    "unit", [*FRAGMENTS, "a", "a-", "a.", "a_", "--a-", "-_ ", "ghp_a ", "login -", "key=abc 1ab "]
)
def test_masking_time_is_linear(unit: str) -> None:
    """The time grows with the length of the text; that of a quadratic pattern would grow by a factor of 256."""
    text = (unit * limits.CHECKED_CHARACTERS)[: limits.CHECKED_CHARACTERS]
    part = text[: len(text) // 16]
    assert measure_cpu_s(lambda: mask_secrets(text)) < 64 * measure_cpu_s(lambda: mask_secrets(part))
