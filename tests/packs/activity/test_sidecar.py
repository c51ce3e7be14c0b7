"""The two routes of the sidecar with each engine, and who may call them."""

import base64
import http.client
import io
import json
import socket
from typing import Any

import pytest
from tests.packs.activity.scripted_server import ScriptedResponse, run_scripted_server
from tests.packs.activity.sidecars import decode_image, run_sidecar
from tests.packs.activity.tool_clients import connect_tool_client

from hubbub import SettingsError
from hubbub.packs.activity import limits
from hubbub.packs.activity.sidecar import capture, tesseract
from hubbub.packs.activity.sidecar.command import main
from hubbub.packs.activity.sidecar.picture import Picture

needs_tesseract = pytest.mark.skipif(tesseract.version() is None, reason="no tesseract here: apt install tesseract-ocr")


def picture_of(*lines: str) -> str:
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (900, 60 * len(lines) + 20), "white")
    for number, line in enumerate(lines):
        ImageDraw.Draw(image).text((20, 15 + 60 * number), line, fill="black", font_size=30)
    out = io.BytesIO()
    image.save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()


@pytest.mark.parametrize("slash", ["", "/"])
def test_the_mock_engine_answers_in_the_original_format_and_identifies_itself(slash: str) -> None:
    with run_sidecar() as asked:
        status, probe = asked.request("GET", f"/probe{slash}")
        parsed_status, parsed = asked.request("POST", f"/parse{slash}", b"not even JSON")
    assert (status, parsed_status) == (200, 200)
    assert probe["mode"] == parsed["mode"] == "mock"
    assert {"ok": True, "model": "omniparser-mock", "gpu": "unknown"}.items() <= probe.items()
    assert [item["type"] for item in parsed["parsed_content_list"]] == ["text", "icon"]
    assert all("mock" in item["content"] for item in parsed["parsed_content_list"])


@pytest.mark.parametrize(("method", "path"), [("GET", "/"), ("GET", "/parse"), ("POST", "/probe"), ("GET", "/probe/x")])
def test_other_paths_are_not_found(method: str, path: str) -> None:
    with run_sidecar() as asked:
        assert asked.request(method, path) == (404, {"ok": False, "error": "not found"})


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_are_not_found(method: str) -> None:
    with run_sidecar() as asked:
        assert asked.request(method, "/probe") == (404, {"ok": False, "error": "not found"})
        assert asked.request("HEAD", "/probe") == (404, b"")
        assert asked.request("PROPFIND", "/probe")[1]["ok"] is False


@pytest.mark.parametrize(
    "sent", [b"GARBAGE\r\n\r\n", b"GET /probe HTTP/9.9\r\n\r\n", b"GET /" + b"x" * 70_000 + b"\r\n\r\n"]
)
def test_malformed_requests_are_answered_in_json(sent: bytes) -> None:
    with run_sidecar() as asked, socket.create_connection(("127.0.0.1", asked.port), 10) as connection:
        connection.sendall(sent)
        with connection.makefile("rb") as answer:
            body = answer.read().rpartition(b"\r\n\r\n")[2]
    assert json.loads(body)["error"] == "invalid_request"


def test_the_sidecar_can_listen_on_ipv6() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    with run_sidecar(host="::1") as asked:
        assert asked.request("GET", "/probe")[0] == 200


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ({"Host": "evil.example"}, "host_refused"),
        ({"Host": ""}, "host_refused"),
        ({"Origin": "http://localhost"}, "origin_refused"),
    ],
)
def test_requests_from_web_pages_are_refused(headers: dict[str, str], error: str) -> None:
    with run_sidecar() as asked:
        status, body = asked.request("GET", "/probe", **headers)
    assert (status, body["error"]) == (403, error)


@needs_tesseract
@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (b"{", 400, "invalid_json"),
        (b"[]", 400, "invalid_json"),
        (b'{"capture": true, "rules": {"mask_titles": ["\\ud800"]}}', 400, "invalid_json"),
        (b'{"capture": true, "rules": {"\\ud800": 1}}', 400, "invalid_json"),
        (b'{"capture": true, "private_titles": ["\xff"]}', 400, "invalid_json"),
        ({}, 400, "missing_base64_image"),
        ({"base64_image": ""}, 400, "missing_base64_image"),
        ({"base64_image": 7}, 400, "missing_base64_image"),
        ({"base64_image": "!"}, 400, "invalid_image"),
        ({"base64_image": "aGVsbG8="}, 400, "invalid_image"),
        ({"base64_image": "aGVsbG8=", "parse_options": {"lang": "../x"}}, 400, "invalid_option"),
        ({"base64_image": "aGVsbG8=", "parse_options": {"region": [1]}}, 400, "invalid_option"),
        (b'{"base64_image": "aGVsbG8=", "parse_options": {"region": [0, 0, NaN, 5]}}', 400, "invalid_json"),
        (b'{"base64_image": "aGVsbG8=", "parse_options": {"region": [0, 0, 1e999, 5]}}', 400, "invalid_json"),
        (b'{"base64_image": "aGVsbG8=", "parse_options": {"min_score": NaN}}', 400, "invalid_json"),
        ({"base64_image": "aGVsbG8=", "parse_options": {"min_score": 2}}, 400, "invalid_option"),
        ({"capture": True, "private_titles": "x"}, 400, "invalid_option"),
        ({"capture": True, "private_titles": [1]}, 400, "invalid_option"),
        ({"capture": True, "rules": 1}, 400, "invalid_option"),
        ({"capture": True, "rules": {"drop_apps": ["("]}}, 400, "invalid_option"),
        ({"capture": True, "rules": {"drop_smells": ["x"]}}, 400, "invalid_option"),
    ],
)
def test_an_invalid_request_is_refused_with_a_reason(body: Any, status: int, error: str) -> None:
    with run_sidecar("local") as asked:
        answered, response = asked.request("POST", "/parse", body)
    assert (answered, response["ok"], response["error"]) == (status, False, error)


@needs_tesseract
def test_a_request_over_the_size_limit_is_refused() -> None:
    with run_sidecar("local") as asked:
        for announced in (str(limits.SIDECAR_BODY_BYTES + 1), "9" * 5000):
            connection = http.client.HTTPConnection("127.0.0.1", asked.port, timeout=60)
            connection.putrequest("POST", "/parse")
            connection.putheader("Content-Length", announced)
            connection.endheaders()
            answer = connection.getresponse()
            assert (answer.status, json.loads(answer.read())["error"]) == (413, "body_too_large")
            connection.close()
        bomb = io.BytesIO()
        from PIL import Image

        Image.new("1", (9000, 9000)).save(bomb, "PNG")
        status, response = asked.request("POST", "/parse", {"base64_image": base64.b64encode(bomb.getvalue()).decode()})
    assert (status, response["error"]) == (413, "image_too_large")


@needs_tesseract
def test_the_local_engine_reports_its_capabilities() -> None:
    with run_sidecar("local") as asked:
        _, probe = asked.request("GET", "/probe")
    assert (probe["ok"], probe["mode"], probe["preflight_ok"]) == (True, "local", True)
    is_seen = capture.screen_state() == capture.SCREEN_OK
    assert (probe["ready"], probe["reason"]) == (is_seen, "ready" if is_seen else "screen_missing")
    assert probe["versions"]["tesseract"]
    keys = {"missing_imports", "optional_missing", "missing_files", "missing_weights", "required_weights", "engines"}
    assert keys <= set(probe)


def test_a_missing_tesseract_is_reported_before_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with run_sidecar("local") as asked:
        _, probe = asked.request("GET", "/probe")
        status, response = asked.request("POST", "/parse", b"not even JSON")
    assert (probe["ok"], probe["preflight_ok"], probe["ready"], probe["reason"]) == (True, False, False, "ocr_missing")
    assert (status, response["error"], response["preflight_ok"]) == (503, "preflight_only", False)


@needs_tesseract
def test_text_is_recognised_with_its_box() -> None:
    with run_sidecar("local") as asked:
        status, response = asked.request(
            "POST", "/parse", {"image_base64": picture_of("Hello from Hubbub", "Second line here")}
        )
    assert status == 200
    assert response["ok"] is True
    first, second = response["parsed_content_list"]
    assert (first["content"], second["content"]) == ("Hello from Hubbub", "Second line here")
    assert (first["type"], first["source"], first["interactivity"]) == ("text", "ocr", False)
    left, top, right, bottom = first["bbox"]
    assert 0 <= left < right <= 1
    assert 0 <= top < bottom < second["bbox"][1] + 0.1
    marked = Picture.decode(base64.b64decode(response["som_image_base64"]))
    assert (marked.width, marked.height) == (900, 140)


@needs_tesseract
def test_private_text_is_neither_in_the_elements_nor_in_the_picture() -> None:
    with run_sidecar("local", drop_text=("salary",), mask_text=("Ann",)) as asked:
        body = {
            "base64_image": picture_of(
                "My salary is large", "Hello to Ann today", "password: hunter2", "Everything works fine"
            )
        }
        _, response = asked.request("POST", "/parse", body)
        contents = [element["content"] for element in response["parsed_content_list"]]
        again = {"base64_image": response["som_image_base64"]}
        _, reread = asked.request("POST", "/parse", again)
    assert "Everything works fine" in contents
    assert any("[private]" in line for line in contents)
    assert any("[secret]" in line for line in contents)
    everything = json.dumps([contents, reread["parsed_content_list"]]).lower()
    assert not [word for word in ("salary", "large", "ann ", "hunter2") if word in everything]


@needs_tesseract
def test_a_private_region_is_blackened_before_text_recognition() -> None:
    with run_sidecar("local", regions=("900x60+0+0",)) as asked:
        _, response = asked.request(
            "POST", "/parse", {"base64_image": picture_of("Top secret line", "Second line here")}
        )
    contents = [element["content"] for element in response["parsed_content_list"]]
    assert contents[-1] == "Second line here"
    assert "secret" not in " ".join(contents)


@needs_tesseract
def test_a_part_of_a_picture_can_be_read() -> None:
    with run_sidecar("local") as asked:
        options = {"region": [0, 70, 900, 140]}
        _, response = asked.request(
            "POST",
            "/parse",
            {"base64_image": picture_of("First line here", "Second line here"), "parse_options": options},
        )
    assert [element["content"] for element in response["parsed_content_list"]] == ["Second line here"]


def omniparser(elements: list[Any], picture: str = "") -> Any:
    def answer(method: str, path: str) -> ScriptedResponse:
        if not path.endswith("/"):
            return ScriptedResponse(307, b"", headers={"Location": f"{path}/"})
        if method == "GET":
            return ScriptedResponse(body=b'{"message": "Omniparser API ready"}')
        body = {"parsed_content_list": elements, "som_image_base64": picture, "latency": 0.5}
        return ScriptedResponse(body=json.dumps(body).encode())

    return run_scripted_server(answer)


def test_privacy_rules_apply_to_omniparser_results() -> None:
    elements = [
        {"type": "text", "content": "password: hunter2", "bbox": [0, 0, 0.5, 0.5]},
        {"type": "icon", "content": "Save", "bbox": [0.5, 0.5, 1, 1]},
        "odd",
    ]
    with omniparser(elements, picture_of("hunter2")) as remote, run_sidecar("omniparser", remote.url) as asked:
        _, probe = asked.request("GET", "/probe")
        _, response = asked.request("POST", "/parse", {"base64_image": picture_of("x")})
        posted = [path for method, path, _ in remote.requests if method == "POST"]
    assert (probe["ok"], probe["mode"], probe["preflight_ok"]) == (True, "omniparser", True)
    assert probe["ready"] is (capture.screen_state() == capture.SCREEN_OK)
    assert [element["content"] for element in response["parsed_content_list"]] == ["password: [secret]", "Save"]
    assert posted == ["/parse", "/parse/"]
    assert decode_image(response["som_image_base64"]).getpixel((30, 30)) == (0, 0, 0)


def test_an_unreachable_omniparser_is_reported() -> None:
    with run_sidecar("omniparser", "http://127.0.0.1:9") as asked:
        _, probe = asked.request("GET", "/probe")
        status, response = asked.request("POST", "/parse", {"base64_image": picture_of("x")})
    assert (probe["ok"], probe["reason"]) == (False, "unreachable")
    assert (status, response["error"], response["kind"]) == (502, "omniparser_failed", "unreachable")


async def test_the_pack_works_with_the_sidecar() -> None:
    with run_sidecar() as asked:
        async with connect_tool_client(sidecar_url=asked.url) as tool_client:
            health = await tool_client.call("system.health")
            screen = await tool_client.call("screen.read")
    assert (health["sidecar_probe_status"], health["preflight_ok"], health["omni_probe"]["mode"]) == (
        True,
        True,
        "mock",
    )
    assert screen["text"] == "mock text\nmock icon"


def test_a_non_loopback_address_without_insecure_is_refused() -> None:
    with pytest.raises(SettingsError, match="could read the screen"):
        main(["--host", "0.0.0.0"])
