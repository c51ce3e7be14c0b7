"""A browser without a display: it follows redirects, keeps cookies, and submits the forms of login and consent."""

import re
import ssl
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.client import HTTPResponse
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

MAX_STEPS = 30
TIMEOUT_S = 60.0
PASSWORD = "correct horse battery staple"


@dataclass
class Form:
    """A form of a page, with the values that it was sent with."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)
    text_fields: list[str] = field(default_factory=list)
    buttons: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class Page:
    """A response that is not a redirect."""

    url: str
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def forms(self) -> list[Form]:
        reader = _FormReader(self.url)
        reader.feed(self.text)
        return reader.forms

    @property
    def query(self) -> dict[str, str]:
        """The parameters of its URL."""
        return {name: values[0] for name, values in parse_qs(urlsplit(self.url).query).items()}


class _FormReader(HTMLParser):
    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._is_open = False
        self.forms: list[Form] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            action = urljoin(self._url, given.get("action", ""))
            self.forms.append(Form(action, given.get("method", "get").upper()))
            self._is_open = True
        elif not self._is_open:
            return
        elif tag == "button" or (tag == "input" and given.get("type") == "submit"):
            self.forms[-1].buttons.append((given.get("name", ""), given.get("value", "")))
        elif tag == "input" and given.get("name"):
            kind = given.get("type", "text")
            if kind not in ("checkbox", "radio") or "checked" in given:
                self.forms[-1].fields[given["name"]] = given.get("value", "on" if kind == "checkbox" else "")
            if kind in ("text", "email", "password"):
                self.forms[-1].text_fields.append(given["name"])

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._is_open = False


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


class _LocalCookies(DefaultCookiePolicy):
    """Send cookies marked `Secure` over plain HTTP too, since browsers treat this machine as secure."""

    def return_ok_secure(self, cookie: Any, request: Any) -> bool:
        return True


class ScriptedBrowser:
    """Its cookies belong to hosts, not to ports, as in every browser."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.cookies = CookieJar(_LocalCookies())
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPCookieProcessor(self.cookies),
            urllib.request.HTTPSHandler(context=tls),
            _NoRedirects(),
        )

    def send(self, url: str, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None) -> Page:
        """Make one request; redirects are returned as pages."""
        return self.send_body(url, None if form is None else urlencode(form).encode(), headers)

    def send_body(self, url: str, body: bytes | None, headers: Mapping[str, str] | None = None) -> Page:
        """Make one request with any body."""
        request = urllib.request.Request(url, body, dict(headers or {}))
        try:
            response: HTTPResponse | HTTPError = self._opener.open(request, timeout=TIMEOUT_S)
        except HTTPError as error:
            response = error
        with response:
            text = response.read().decode()
            headers = {name.title(): value for name, value in response.headers.items()}
            return Page(url, response.status or 0, headers, text)

    def visit(
        self, url: str, form: Mapping[str, str] | None = None, *, stop_at: str = "", referrer: str | None = None
    ) -> Page:
        """Make a request and follow redirects; a redirect to a URL that starts with `stop_at` is not requested."""
        for _ in range(MAX_STEPS):
            headers = {} if referrer is None else {"Origin": _origin(referrer), "Referer": referrer}
            page = self.send(url, form, headers)
            location = page.headers.get("Location")
            if page.status not in (301, 302, 303, 307) or location is None:
                return page
            url, form, referrer = urljoin(url, location), None, None
            if stop_at and url.startswith(stop_at):
                return Page(url, 0, {}, "")
        raise AssertionError(f"more than {MAX_STEPS} redirects, last to {urlsplit(url).path}")

    def submit(
        self, page: Page, values: Mapping[str, str], *, button: tuple[str, str] = ("", ""), stop_at: str = ""
    ) -> Page:
        """Submit the first form of a page, with the named button if it has a name."""
        form = page.forms[0]
        content = {**form.fields, **values}
        if button[0]:
            content[button[0]] = button[1]
        if form.method == "GET":
            return self.visit(f"{form.action}?{urlencode(content)}", stop_at=stop_at)
        return self.visit(form.action, content, stop_at=stop_at, referrer=page.url)

    def refuse(self, url: str, person: str, *, stop_at: str) -> str:
        """Log in, and refuse what the client asks for: with the last button, or the link to cancel."""
        page = self.visit(url, stop_at=stop_at)
        for _ in range(MAX_STEPS):
            if page.status != 200:
                return page.url
            form = page.forms[0]
            cancel = re.search(r'href="([^"]+/abort)"', page.text)
            if form.text_fields:
                page = self.submit_as(page, person, stop_at=stop_at)
            elif cancel is not None:
                page = self.visit(urljoin(page.url, cancel[1]), stop_at=stop_at)
            else:
                page = self.submit(page, {}, button=form.buttons[-1], stop_at=stop_at)
        raise AssertionError(f"more than {MAX_STEPS} pages, last {urlsplit(page.url).path}")

    def submit_as(self, page: Page, person: str, *, stop_at: str = "") -> Page:
        """Fill in the name and password of a person, and press the first button."""
        form = page.forms[0]
        values = {name: PASSWORD if "password" in name else person for name in form.text_fields}
        return self.submit(page, values, button=next(iter(form.buttons), ("", "")), stop_at=stop_at)

    def log_in(
        self, url: str, person: str, *, stop_at: str = "", on_page: Callable[[Page], None] | None = None
    ) -> Page:
        """Open a page and go through every login and consent, until a page without a form or `stop_at`.

        The first button of each form is pressed. `on_page` is called with each page that has a form.
        """
        page = self.visit(url, stop_at=stop_at)
        for _ in range(MAX_STEPS):
            if page.status != 200 or not page.forms:
                return page
            if on_page is not None:
                on_page(page)
            page = self.submit_as(page, person, stop_at=stop_at)
        raise AssertionError(f"more than {MAX_STEPS} forms, last at {urlsplit(page.url).path}")


def _origin(url: str) -> str:
    split = urlsplit(url)
    return f"{split.scheme}://{split.netloc}"
