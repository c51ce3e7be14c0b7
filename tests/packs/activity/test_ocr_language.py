"""The language for text recognition is a setting; a missing one is a clear error."""

import pytest
from tests.packs.activity.sidecars import run_sidecar
from tests.packs.activity.test_sidecar import picture_of
from tests.packs.activity.tool_clients import connect_tool_client
from tests.packs.activity.virtual_screen import skip_without_programs

from hubbub.packs.activity.privacy import Privacy
from hubbub.packs.activity.settings import ActivitySettings, PrivacySettings
from hubbub.packs.activity.sidecar.engine import ParseRequest, SidecarError
from hubbub.packs.activity.sidecar.local import LocalEngine


@pytest.fixture(autouse=True)
def _reader() -> None:
    skip_without_programs("tesseract")


def test_a_missing_language_is_reported_with_its_package() -> None:
    picture = {"base64_image": picture_of("HELLO")}
    with run_sidecar("local") as running_sidecar:
        status, response = running_sidecar.request(
            "POST", "/parse", {**picture, "parse_options": {"lang": "eng+chi_sim_vert"}}
        )
        known, read = running_sidecar.request("POST", "/parse", {**picture, "parse_options": {"lang": "eng+eng"}})
    assert (status, response["error"]) == (503, "language_missing")
    assert "apt install tesseract-ocr-chi-sim-vert" in response["details"]
    assert "Installed: " in response["details"]
    assert (known, read["parsed_content_list"][0]["content"]) == (200, "HELLO")


async def test_the_configured_language_is_requested() -> None:
    with run_sidecar("local") as running_sidecar:
        async with connect_tool_client(sidecar_url=running_sidecar.url, ocr_language="epo_nowhere") as tool_client:
            failure = await tool_client.failure("screen.read")
    assert "apt install tesseract-ocr-epo-nowhere" in str(failure)


def test_a_sidecar_without_its_configured_language_reports_it() -> None:
    engine = LocalEngine(Privacy(PrivacySettings()), "epo_nowhere")
    found = engine.probe()
    assert (found["ready"], found["reason"]) == (False, "language_missing")
    assert "tesseract-ocr-epo-nowhere" in found["engines"]["ocr"]
    with pytest.raises(SidecarError, match="epo-nowhere"):
        engine.require_ready()
    with pytest.raises(SidecarError, match="epo-nowhere"):
        engine.parse(ParseRequest(b"", lang="epo_nowhere"))


@pytest.mark.parametrize("language", ["", "e", "../eng", "eng;", "eng deu"])
def test_an_invalid_language_is_refused(language: str) -> None:
    with pytest.raises(ValueError, match="ocr_language must look like"):
        ActivitySettings(ocr_language=language)
