"""The language of the text on the screen: a setting, and a clear error where it is not installed."""

import pytest
from tests.packs.activity.desks import at_a_desk
from tests.packs.activity.screens import skip_without
from tests.packs.activity.sidecars import sidecar
from tests.packs.activity.test_sidecar import picture_of

from hubbub.packs.activity.privacy import Privacy
from hubbub.packs.activity.settings import ActivitySettings, PrivacySettings
from hubbub.packs.activity.sidecar.engine import ParseRequest, Refusal
from hubbub.packs.activity.sidecar.local import LocalEngine


@pytest.fixture(autouse=True)
def _reader() -> None:
    skip_without("tesseract")


def test_a_language_that_is_not_installed_is_named_with_its_package() -> None:
    picture = {"base64_image": picture_of("HELLO")}
    with sidecar("local") as asked:
        status, said = asked.ask("POST", "/parse", {**picture, "parse_options": {"lang": "eng+chi_sim_vert"}})
        known, read = asked.ask("POST", "/parse", {**picture, "parse_options": {"lang": "eng+eng"}})
    assert (status, said["error"]) == (503, "language_missing")
    assert "apt install tesseract-ocr-chi-sim-vert" in said["details"]
    assert "Installed: " in said["details"]
    assert (known, read["parsed_content_list"][0]["content"]) == (200, "HELLO")


async def test_the_language_of_the_settings_is_asked_for() -> None:
    with sidecar("local") as asked:
        async with at_a_desk(sidecar_url=asked.url, ocr_language="epo_nowhere") as asker:
            failure = await asker.failure("screen.read")
    assert "apt install tesseract-ocr-epo-nowhere" in str(failure)


def test_a_sidecar_whose_own_language_is_missing_says_so() -> None:
    engine = LocalEngine(Privacy(PrivacySettings()), "epo_nowhere")
    found = engine.probe()
    assert (found["ready"], found["reason"]) == (False, "language_missing")
    assert "tesseract-ocr-epo-nowhere" in found["engines"]["ocr"]
    with pytest.raises(Refusal, match="epo-nowhere"):
        engine.require_ready()
    with pytest.raises(Refusal, match="epo-nowhere"):
        engine.parse(ParseRequest(b"", lang="epo_nowhere"))


@pytest.mark.parametrize("language", ["", "e", "../eng", "eng;", "eng deu"])
def test_a_language_that_cannot_be_one_is_refused(language: str) -> None:
    with pytest.raises(ValueError, match="ocr_language must look like"):
        ActivitySettings(ocr_language=language)
