"""Each row of the era ladder: what a transport knows of a message, and the dialect or the refusal that follows."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from hubbub import (
    HeaderMismatch,
    HubbubError,
    Implementation,
    InvalidParams,
    InvalidRequest,
    Meta,
    MethodNotAllowed,
    Revision,
    SessionNotFound,
    SessionRequired,
    UnsupportedVersion,
)
from hubbub.protocol.error_forms import error_object, http_status
from hubbub.protocol.ladder import Facts, claims_modern, climb, climb_batch, modern_caller, refusal_revision
from hubbub.protocol.model import ANONYMOUS
from hubbub.protocol.revisions import (
    LEGACY,
    MODERN,
    NEWEST_LEGACY,
    NEWEST_MODERN,
    PLAIN,
    R2025_03_26,
    R2025_06_18,
    negotiate,
)

NEW = "2026-07-28"
GOOD = Meta(version=NEW, capabilities={})


def http(**facts: Any) -> Facts:
    return Facts(over_http=True, **facts)


@pytest.mark.parametrize(
    ("facts", "revision"),
    [
        # modern: `_meta` decides, on any transport, in and out of sessions
        (Facts(meta=GOOD), NEWEST_MODERN),
        (Facts(meta=GOOD, session=R2025_06_18), NEWEST_MODERN),
        (Facts(meta=GOOD, method="initialize"), NEWEST_MODERN),
        (Facts(meta=GOOD, plain_allowed=False), NEWEST_MODERN),
        (http(meta=GOOD, version_header=NEW), NEWEST_MODERN),
        (http(meta=GOOD, version_header=NEW, names_session=True), NEWEST_MODERN),
        # legacy: a known session, whatever the header says of older versions
        (Facts(session=R2025_03_26), R2025_03_26),
        (http(session=R2025_06_18, names_session=True, version_header="2025-06-18"), R2025_06_18),
        (http(session=R2025_03_26, names_session=True), R2025_03_26),
        (http(session=R2025_06_18), R2025_06_18),
        (http(session=R2025_06_18, plain_allowed=False), R2025_06_18),
        # `initialize` opens a session, so it needs none
        (http(method="initialize", version_header="2025-06-18"), PLAIN),
        (http(method="initialize", plain_allowed=False), PLAIN),
        (http(method="initialize", names_session=True), PLAIN),
        # plain: none of these
        (Facts(), PLAIN),
        (http(), PLAIN),
        (http(method="aw.get_state"), PLAIN),
        # notifications and answers are acknowledged without looking at what a modern request must say
        (http(version_header=NEW, is_request=False), NEWEST_MODERN),
        (http(meta=Meta(version="2030-01-01"), is_request=False), NEWEST_MODERN),
        # GET and DELETE, which have no body
        (http(http_method="GET"), PLAIN),
        (http(http_method="GET", session=R2025_06_18, names_session=True), R2025_06_18),
        (http(http_method="DELETE", session=R2025_06_18, version_header="2025-06-18"), R2025_06_18),
    ],
)
def test_a_message_is_served_in_its_dialect(facts: Facts, revision: Revision) -> None:
    assert climb(facts) is revision


@pytest.mark.parametrize(
    ("facts", "error", "status", "code"),
    [
        # modern by its header, but without what a modern message must say
        (http(version_header=NEW), InvalidParams, 400, -32602),
        (http(version_header="2030-01-01"), InvalidParams, 400, -32602),
        (http(version_header=NEW, method="initialize"), InvalidParams, 400, -32602),
        (http(version_header=NEW, session=R2025_06_18, names_session=True), InvalidParams, 400, -32602),
        (http(version_header=NEW, meta=Meta(version=NEW)), InvalidParams, 400, -32602),
        (Facts(meta=Meta(version=NEW)), InvalidParams, 400, -32602),
        # what is missing is told before what contradicts, and that before what is unknown
        (http(version_header="2025-06-18", meta=Meta(version=NEW)), InvalidParams, 400, -32602),
        (http(version_header="2025-06-18", meta=GOOD), HeaderMismatch, 400, -32020),
        (http(meta=GOOD), HeaderMismatch, 400, -32020),
        (http(version_header=NEW, meta=Meta(version="2030-01-01", capabilities={})), HeaderMismatch, 400, -32020),
        (
            http(version_header="2030-01-01", meta=Meta(version="2030-01-01", capabilities={})),
            UnsupportedVersion,
            400,
            -32022,
        ),
        (Facts(meta=Meta(version="2025-06-18", capabilities={})), UnsupportedVersion, 400, -32022),
        (Facts(meta=Meta(version=NEW, capabilities={}, log_level="loud")), InvalidParams, 400, -32602),
        # legacy without a session
        (http(version_header="2025-06-18"), SessionRequired, 400, -32600),
        (http(version_header="2024-11-05", method="tools/list"), SessionRequired, 400, -32600),
        (http(names_session=True), SessionNotFound, 404, -32600),
        (http(names_session=True, version_header="2025-06-18"), SessionNotFound, 404, -32600),
        (http(version_header="2024-01-01"), UnsupportedVersion, 400, -32022),
        (http(names_session=True, is_request=False), SessionNotFound, 404, -32600),
        # GET and DELETE
        (http(http_method="GET", version_header=NEW), MethodNotAllowed, 405, -32600),
        (http(http_method="DELETE", version_header="2099-01-01", session=R2025_06_18), MethodNotAllowed, 405, -32600),
        (http(http_method="GET", version_header="2024-01-01"), UnsupportedVersion, 400, -32022),
        (http(http_method="GET", names_session=True), SessionNotFound, 404, -32600),
        (http(http_method="DELETE", version_header="2025-06-18"), SessionRequired, 400, -32600),
        # ids that JSON-RPC allows and MCP does not
        (Facts(id=Raw(b"null"), session=R2025_06_18), InvalidRequest, 400, -32600),
        (Facts(id=Raw(b"1.5"), meta=GOOD), InvalidRequest, 400, -32600),
        (http(id=Raw(b"null"), method="initialize"), InvalidRequest, 400, -32600),
        # plain where tenants forbid it
        (http(plain_allowed=False), SessionRequired, 400, -32600),
    ],
)
def test_a_message_is_refused_with_the_error_of_its_era(
    facts: Facts, error: type[HubbubError], status: int, code: int
) -> None:
    with pytest.raises(error) as caught:
        climb(facts)
    assert http_status(caught.value) == status
    spoken = NEWEST_MODERN if claims_modern(facts) or code == -32022 else R2025_06_18
    assert error_object(caught.value, spoken).code == code


@pytest.mark.parametrize("identifier", [b"null", b"1.5", b'"x"', b"-7"])
def test_a_plain_request_may_have_any_id_of_json_rpc(identifier: bytes) -> None:
    assert climb(Facts(id=Raw(identifier))) is PLAIN


def test_batches_are_served_where_the_revision_has_them() -> None:
    assert climb_batch(http()) is PLAIN
    assert climb_batch(Facts(session=R2025_03_26)) is R2025_03_26
    for facts in (http(session=R2025_06_18), http(version_header=NEW), Facts(meta=GOOD), Facts(session=NEWEST_LEGACY)):
        with pytest.raises(InvalidRequest, match="Batches"):
            climb_batch(facts)
    with pytest.raises(SessionNotFound):
        climb_batch(http(names_session=True))


def test_a_refusal_speaks_the_dialect_that_the_message_claims() -> None:
    assert refusal_revision(http(version_header=NEW, session=R2025_03_26)) is NEWEST_MODERN
    assert refusal_revision(http(session=R2025_03_26)) is R2025_03_26
    assert refusal_revision(http(names_session=True)) is NEWEST_LEGACY


def test_a_mismatch_names_both_versions() -> None:
    with pytest.raises(HeaderMismatch, match=r"2025-06-18.*2026-07-28"):
        climb(http(version_header="2025-06-18", meta=GOOD))


def test_an_unsupported_version_is_answered_with_those_supported() -> None:
    with pytest.raises(UnsupportedVersion) as caught:
        climb(Facts(meta=Meta(version="2030-01-01", capabilities={})))
    form = error_object(caught.value, NEWEST_MODERN)
    assert form.data == {"supported": [NEW], "requested": "2030-01-01"}
    assert form.message == "Unsupported protocol version"


@pytest.mark.parametrize(
    ("version", "is_modern"),
    [(NEW, True), ("2026-12-01", True), ("2099-01-01", True), ("DRAFT-2026-v1", True), ("", True)]
    + [(version, False) for version in LEGACY]
    + [("2024-01-01", False), ("2026-07-27", False)],
)
def test_versions_are_modern_from_the_stateless_revision_on(version: str, is_modern: bool) -> None:
    assert claims_modern(Facts(version_header=version)) is is_modern


@pytest.mark.parametrize("version", LEGACY)
def test_a_version_with_a_handshake_is_agreed_to(version: str) -> None:
    assert negotiate(version).version == version


@given(st.text())
def test_any_other_version_is_answered_with_the_newest(version: str) -> None:
    if version not in LEGACY:
        assert negotiate(version).version == "2025-11-25"


def test_a_modern_caller_is_what_its_request_says() -> None:
    meta = Meta(version=NEW, capabilities={"roots": {}}, info=Implementation("c"), log_level="error")
    caller = modern_caller(meta, NEWEST_MODERN, ANONYMOUS)
    assert caller.can("roots")
    assert not caller.can("sampling")
    assert caller.info is not None
    assert caller.info.name == "c"
    assert caller.log_level == "error"
    bare = modern_caller(GOOD, NEWEST_MODERN, ANONYMOUS)
    assert (bare.capabilities, bare.info, bare.log_level) == ({}, None, None)


@given(
    st.builds(
        Facts,
        method=st.sampled_from(["initialize", "tools/call", "x", ""]),
        meta=st.builds(
            Meta,
            version=st.sampled_from([UNSET, NEW, "2025-06-18", "x"]),
            capabilities=st.sampled_from([UNSET, {}]),
        ),
        version_header=st.sampled_from([None, NEW, *LEGACY, "x", "1999-01-01", "2099-01-01"]),
        session=st.sampled_from([None, *LEGACY.values()]),
        names_session=st.booleans(),
        over_http=st.booleans(),
        plain_allowed=st.booleans(),
    )
)
def test_every_message_has_one_place_on_the_ladder(facts: Facts) -> None:
    try:
        revision = climb(facts)
    except (InvalidParams, HeaderMismatch, UnsupportedVersion, SessionNotFound, SessionRequired):
        return
    assert (revision in MODERN.values()) == claims_modern(facts)
    if revision is PLAIN:
        assert facts.session is None
        assert facts.method == "initialize" or (facts.plain_allowed and not facts.names_session)
