"""Each case of `classify`: the facts of a message, and the revision or error that follows."""

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
from hubbub.protocol.calls import ANONYMOUS
from hubbub.protocol.dialect import (
    MessageFacts,
    claims_modern,
    classify,
    classify_batch,
    classify_fast,
    modern_caller,
    refusal_revision,
)
from hubbub.protocol.error_codes import error_object, http_status
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

MODERN_VERSION = "2026-07-28"
MODERN_META = Meta(version=MODERN_VERSION, capabilities={})


def http_facts(**facts: Any) -> MessageFacts:
    return MessageFacts(over_http=True, **facts)


@pytest.mark.parametrize(
    ("facts", "revision"),
    [
        # modern: `_meta` decides, on any transport, in and out of sessions
        (MessageFacts(meta=MODERN_META), NEWEST_MODERN),
        (MessageFacts(meta=MODERN_META, session=R2025_06_18), NEWEST_MODERN),
        (MessageFacts(meta=MODERN_META, method="initialize"), NEWEST_MODERN),
        (MessageFacts(meta=MODERN_META, plain_allowed=False), NEWEST_MODERN),
        (http_facts(meta=MODERN_META, version_header=MODERN_VERSION), NEWEST_MODERN),
        (http_facts(meta=MODERN_META, version_header=MODERN_VERSION, names_session=True), NEWEST_MODERN),
        # legacy: a known session, with any legacy version in the header
        (MessageFacts(session=R2025_03_26), R2025_03_26),
        (http_facts(session=R2025_06_18, names_session=True, version_header="2025-06-18"), R2025_06_18),
        (http_facts(session=R2025_03_26, names_session=True), R2025_03_26),
        (http_facts(session=R2025_06_18), R2025_06_18),
        (http_facts(session=R2025_06_18, plain_allowed=False), R2025_06_18),
        # `initialize` opens a session, so it needs none
        (http_facts(method="initialize", version_header="2025-06-18"), PLAIN),
        (http_facts(method="initialize", plain_allowed=False), PLAIN),
        (http_facts(method="initialize", names_session=True), PLAIN),
        # plain: everything else
        (MessageFacts(), PLAIN),
        (http_facts(), PLAIN),
        (http_facts(method="aw.get_state"), PLAIN),
        # notifications and responses are acknowledged without checking the required fields of modern requests
        (http_facts(version_header=MODERN_VERSION, is_request=False), NEWEST_MODERN),
        (http_facts(meta=Meta(version="2030-01-01"), is_request=False), NEWEST_MODERN),
        # GET and DELETE, which have no body
        (http_facts(http_method="GET"), PLAIN),
        (http_facts(http_method="GET", session=R2025_06_18, names_session=True), R2025_06_18),
        (http_facts(http_method="DELETE", session=R2025_06_18, version_header="2025-06-18"), R2025_06_18),
    ],
)
def test_a_message_is_served_in_its_dialect(facts: MessageFacts, revision: Revision) -> None:
    assert classify(facts) is revision


@pytest.mark.parametrize(
    ("facts", "error", "status", "code"),
    [
        # modern by its header, but without required fields
        (http_facts(version_header=MODERN_VERSION), InvalidParams, 400, -32602),
        (http_facts(version_header="2030-01-01"), InvalidParams, 400, -32602),
        (http_facts(version_header=MODERN_VERSION, method="initialize"), InvalidParams, 400, -32602),
        (
            http_facts(version_header=MODERN_VERSION, session=R2025_06_18, names_session=True),
            InvalidParams,
            400,
            -32602,
        ),
        (http_facts(version_header=MODERN_VERSION, meta=Meta(version=MODERN_VERSION)), InvalidParams, 400, -32602),
        (MessageFacts(meta=Meta(version=MODERN_VERSION)), InvalidParams, 400, -32602),
        # missing values are reported before mismatches, and mismatches before unknown versions
        (http_facts(version_header="2025-06-18", meta=Meta(version=MODERN_VERSION)), InvalidParams, 400, -32602),
        (http_facts(version_header="2025-06-18", meta=MODERN_META), HeaderMismatch, 400, -32020),
        (http_facts(meta=MODERN_META), HeaderMismatch, 400, -32020),
        (
            http_facts(version_header=MODERN_VERSION, meta=Meta(version="2030-01-01", capabilities={})),
            HeaderMismatch,
            400,
            -32020,
        ),
        (
            http_facts(version_header="2030-01-01", meta=Meta(version="2030-01-01", capabilities={})),
            UnsupportedVersion,
            400,
            -32022,
        ),
        (MessageFacts(meta=Meta(version="2025-06-18", capabilities={})), UnsupportedVersion, 400, -32022),
        (
            MessageFacts(meta=Meta(version=MODERN_VERSION, capabilities={}, log_level="loud")),
            InvalidParams,
            400,
            -32602,
        ),
        # legacy without a session
        (http_facts(version_header="2025-06-18"), SessionRequired, 400, -32600),
        (http_facts(version_header="2024-11-05", method="tools/list"), SessionRequired, 400, -32600),
        (http_facts(names_session=True), SessionNotFound, 404, -32600),
        (http_facts(names_session=True, version_header="2025-06-18"), SessionNotFound, 404, -32600),
        (http_facts(version_header="2024-01-01"), UnsupportedVersion, 400, -32022),
        (http_facts(names_session=True, is_request=False), SessionNotFound, 404, -32600),
        # GET and DELETE
        (http_facts(http_method="GET", version_header=MODERN_VERSION), MethodNotAllowed, 405, -32600),
        (
            http_facts(http_method="DELETE", version_header="2099-01-01", session=R2025_06_18),
            MethodNotAllowed,
            405,
            -32600,
        ),
        (http_facts(http_method="GET", version_header="2024-01-01"), UnsupportedVersion, 400, -32022),
        (http_facts(http_method="GET", names_session=True), SessionNotFound, 404, -32600),
        (http_facts(http_method="DELETE", version_header="2025-06-18"), SessionRequired, 400, -32600),
        # ids that JSON-RPC allows and MCP does not
        (MessageFacts(id=Raw(b"null"), session=R2025_06_18), InvalidRequest, 400, -32600),
        (MessageFacts(id=Raw(b"1.5"), meta=MODERN_META), InvalidRequest, 400, -32600),
        (http_facts(id=Raw(b"null"), method="initialize"), InvalidRequest, 400, -32600),
        # plain where tenants forbid it
        (http_facts(plain_allowed=False), SessionRequired, 400, -32600),
    ],
)
def test_a_message_is_refused_with_the_error_of_its_era(
    facts: MessageFacts, error: type[HubbubError], status: int, code: int
) -> None:
    with pytest.raises(error) as caught:
        classify(facts)
    assert http_status(caught.value) == status
    spoken = NEWEST_MODERN if claims_modern(facts) or code == -32022 else R2025_06_18
    assert error_object(caught.value, spoken).code == code


@pytest.mark.parametrize("identifier", [b"null", b"1.5", b'"x"', b"-7"])
def test_a_plain_request_may_have_any_id_that_json_rpc_allows(identifier: bytes) -> None:
    assert classify(MessageFacts(id=Raw(identifier))) is PLAIN


def test_batches_are_served_in_revisions_with_batches() -> None:
    assert classify_batch(http_facts()) is PLAIN
    assert classify_batch(MessageFacts(session=R2025_03_26)) is R2025_03_26
    for facts in (
        http_facts(session=R2025_06_18),
        http_facts(version_header=MODERN_VERSION),
        MessageFacts(meta=MODERN_META),
        MessageFacts(session=NEWEST_LEGACY),
    ):
        with pytest.raises(InvalidRequest, match="Batches"):
            classify_batch(facts)
    with pytest.raises(SessionNotFound):
        classify_batch(http_facts(names_session=True))


def test_a_refusal_has_the_dialect_that_the_message_claims() -> None:
    assert refusal_revision(http_facts(version_header=MODERN_VERSION, session=R2025_03_26)) is NEWEST_MODERN
    assert refusal_revision(http_facts(session=R2025_03_26)) is R2025_03_26
    assert refusal_revision(http_facts(names_session=True)) is NEWEST_LEGACY


def test_a_mismatch_names_both_versions() -> None:
    with pytest.raises(HeaderMismatch, match=r"2025-06-18.*2026-07-28"):
        classify(http_facts(version_header="2025-06-18", meta=MODERN_META))


def test_the_error_for_an_unsupported_version_lists_the_supported_ones() -> None:
    with pytest.raises(UnsupportedVersion) as caught:
        classify(MessageFacts(meta=Meta(version="2030-01-01", capabilities={})))
    form = error_object(caught.value, NEWEST_MODERN)
    assert form.data == {"supported": [MODERN_VERSION], "requested": "2030-01-01"}
    assert form.message == "Unsupported protocol version"


@pytest.mark.parametrize(
    ("version", "is_modern"),
    [(MODERN_VERSION, True), ("2026-12-01", True), ("2099-01-01", True), ("DRAFT-2026-v1", True), ("", True)]
    + [(version, False) for version in LEGACY]
    + [("2024-01-01", False), ("2026-07-27", False)],
)
def test_versions_from_the_stateless_revision_on_are_modern(version: str, is_modern: bool) -> None:
    assert claims_modern(MessageFacts(version_header=version)) is is_modern


@pytest.mark.parametrize("version", LEGACY)
def test_the_handshake_accepts_every_legacy_version(version: str) -> None:
    assert negotiate(version).version == version


@given(st.text())
def test_the_handshake_offers_the_newest_version_for_an_unknown_one(version: str) -> None:
    if version not in LEGACY:
        assert negotiate(version).version == "2025-11-25"


def test_a_modern_caller_is_read_from_its_request() -> None:
    meta = Meta(version=MODERN_VERSION, capabilities={"roots": {}}, info=Implementation("c"), log_level="error")
    caller = modern_caller(meta, NEWEST_MODERN, ANONYMOUS)
    assert caller.can("roots")
    assert not caller.can("sampling")
    assert caller.info is not None
    assert caller.info.name == "c"
    assert caller.log_level == "error"
    bare = modern_caller(MODERN_META, NEWEST_MODERN, ANONYMOUS)
    assert (bare.capabilities, bare.info, bare.log_level) == ({}, None, None)


@given(
    st.builds(
        MessageFacts,
        method=st.sampled_from(["initialize", "tools/call", "x", ""]),
        meta=st.builds(
            Meta,
            version=st.sampled_from([UNSET, MODERN_VERSION, "2025-06-18", "x"]),
            capabilities=st.sampled_from([UNSET, {}]),
        ),
        version_header=st.sampled_from([None, MODERN_VERSION, *LEGACY, "x", "1999-01-01", "2099-01-01"]),
        session=st.sampled_from([None, *LEGACY.values()]),
        names_session=st.booleans(),
        over_http=st.booleans(),
        plain_allowed=st.booleans(),
    )
)
def test_every_message_gets_a_revision_or_a_typed_error(facts: MessageFacts) -> None:
    try:
        revision = classify(facts)
    except (InvalidParams, HeaderMismatch, UnsupportedVersion, SessionNotFound, SessionRequired):
        return
    assert (revision in MODERN.values()) == claims_modern(facts)
    if revision is PLAIN:
        assert facts.session is None
        assert facts.method == "initialize" or (facts.plain_allowed and not facts.names_session)


@given(
    st.sampled_from(["initialize", "tools/call", "x", ""]),
    st.builds(
        Meta,
        version=st.sampled_from([UNSET, MODERN_VERSION, "2025-06-18", "2099-01-01", "x"]),
        capabilities=st.sampled_from([UNSET, {}]),
        log_level=st.sampled_from([UNSET, "error", "x"]),
    ),
    st.sampled_from([None, PLAIN, *LEGACY.values()]),
    st.from_regex(rb"[0-9]+", fullmatch=True).map(Raw),
)
def test_the_fast_path_returns_the_revision_that_classify_returns(
    method: str, meta: Meta, session: Revision | None, identifier: Raw
) -> None:
    revision = classify_fast(method, meta, session)
    facts = MessageFacts(method=method, id=identifier, meta=meta, session=session)
    assert revision is None or revision is classify(facts)
