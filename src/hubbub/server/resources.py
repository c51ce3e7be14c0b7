"""Resources: single ones, templates with parameters, and providers that list their own.

A function registered for a URI, or for a URI template, returns text, bytes or
`ResourceContents`; None means that there is nothing. Template parameters reach the
function only after `UriTemplate` has made sure that they cannot climb out of their place.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import UNSET

from hubbub import bounds
from hubbub.errors import DefinitionError, ResourceNotFound
from hubbub.protocol.content import Annotations, ResourceContents
from hubbub.protocol.model import Call
from hubbub.protocol.wire import ResourceEntry, TemplateEntry
from hubbub.server.context import Context
from hubbub.server.handlers import Handler
from hubbub.server.pages import Place, Places

if TYPE_CHECKING:
    from hubbub.protocol.uri_template import UriTemplate
    from hubbub.server.server import Server


class ResourceDetails(msgspec.Struct, rename="camel"):
    """A resource as a provider lists it."""

    uri: str
    name: str
    description: str | None = None
    mime_type: str | None = None


class ProvidedResource(ResourceDetails, kw_only=True):
    """A resource as a provider gives it: the details and the text."""

    content: str | bytes


class ResourceProvider(Protocol):
    """Contract 001's provider: lists what it has, and gets one by URI."""

    def list_resources(self) -> Iterable[ResourceDetails]:
        """Everything there is."""

    async def get_resource(self, uri: str) -> ProvidedResource | None:
        """One resource; None if there is no such."""


class ResourceFunction:
    """A function behind a URI or a URI template."""

    def __init__(
        self,
        function: Callable[..., Any],
        uri: str,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        annotations: Annotations | None = None,
    ) -> None:
        self.function = function
        self.uri = uri
        self.template = _parse_template(uri) if "{" in uri else None
        self.mime_type = mime_type
        described = description if description is not None else (inspect.getdoc(function) or "")
        self.entry = ResourceEntry(
            uri,
            name or function.__name__,
            described or UNSET,
            mime_type if mime_type is not None else UNSET,
            title if title is not None else UNSET,
            annotations=annotations if annotations is not None else UNSET,
        )
        self._handler = Handler(function, _check_parameters(function, self.template, uri))

    @property
    def template_entry(self) -> TemplateEntry:
        """The entry of `resources/templates/list`."""
        entry = self.entry
        return TemplateEntry(self.uri, entry.name, entry.description, entry.mime_type, entry.title, entry.annotations)

    @property
    def converses(self) -> bool:
        """Whether reading may ask the caller something first."""
        return self._handler.context_name is not None

    async def read(self, uri: str, parameters: dict[str, str], call: Call, server: Server) -> list[ResourceContents]:
        """The contents, or ResourceNotFound."""
        value = await self._handler.call(dict(parameters), call, server)
        if value is None:
            raise ResourceNotFound(uri)
        return [_contents(uri, item, self.mime_type) for item in (value if isinstance(value, list) else [value])]


class Resources:
    """All resources of a server, in the order they were added."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._functions: dict[str, ResourceFunction] = {}
        self.places = Places()
        """Where each resource and template stands in its list."""
        self._providers: list[ResourceProvider] = []

    def add(self, resource: ResourceFunction) -> None:
        """Add a resource or template, or replace the one of that URI."""
        if resource.uri not in self._functions and len(self._functions) >= bounds.TOOLS:
            raise DefinitionError(f"a server holds at most {bounds.TOOLS} resources")
        self._functions[resource.uri] = resource
        self.places.add(resource.uri)
        self._changed()

    def add_provider(self, provider: ResourceProvider) -> None:
        """Add everything that a provider lists, now and later."""
        self._providers.append(provider)
        self._changed()

    def remove(self, uri: str) -> bool:
        """Remove a resource or template; whether there was one."""
        if self._functions.pop(uri, None) is None:
            return False
        self.places.remove(uri)
        self._changed()
        return True

    def __len__(self) -> int:
        return len(self._functions) + len(self._providers)

    def entries(self) -> list[tuple[Place, ResourceEntry]]:
        """Every resource that can be listed, with its place; templates are not. Providers may list in any order."""
        entries = [
            (self.places[uri], function.entry) for uri, function in self._functions.items() if function.template is None
        ]
        for number, provider in enumerate(self._providers, start=1):
            provided = {item.uri: item for item in provider.list_resources()}
            entries += [((number, 0, uri), _provided_entry(provided[uri])) for uri in sorted(provided)]
        return entries

    def templates(self) -> list[ResourceFunction]:
        """Every template."""
        return [function for function in self._functions.values() if function.template is not None]

    def find(self, uri: str) -> tuple[ResourceFunction, dict[str, str]] | None:
        """The function behind a URI, with the template's parameters."""
        exact = self._functions.get(uri)
        if exact is not None and exact.template is None:
            return exact, {}
        for function in self.templates():
            assert function.template is not None
            parameters = function.template.match(uri)
            if parameters is not None:
                return function, parameters
        return None

    async def read(self, uri: str, call: Call, server: Server) -> list[ResourceContents]:
        """The contents of a resource.

        Raises:
            ResourceNotFound: nobody has it.
        """
        found = self.find(uri)
        if found is not None:
            function, parameters = found
            return await function.read(uri, parameters, call, server)
        for provider in self._providers:
            resource = await provider.get_resource(uri)
            if resource is not None:
                return [_contents(resource.uri, resource.content, resource.mime_type)]
        raise ResourceNotFound(uri)


def _provided_entry(item: ResourceDetails) -> ResourceEntry:
    return ResourceEntry(item.uri, item.name, item.description or UNSET, item.mime_type or UNSET)


def _contents(uri: str, value: Any, mime_type: str | None) -> ResourceContents:
    if isinstance(value, ResourceContents):
        return value
    if isinstance(value, bytes):
        return ResourceContents(uri, mime_type or "application/octet-stream", blob=value)
    if isinstance(value, str):
        return ResourceContents(uri, mime_type or "text/plain", text=value)
    text = msgspec.json.encode(value).decode()
    return ResourceContents(uri, mime_type or "application/json", text=text)


def _parse_template(uri: str) -> UriTemplate:
    from hubbub.protocol.uri_template import UriTemplate  # Its patterns take long to compile.

    return UriTemplate(uri)


def _check_parameters(function: Callable[..., Any], template: UriTemplate | None, uri: str) -> str | None:
    """The name of the context parameter; every other must be a variable of the template."""
    parameters = inspect.signature(function, eval_str=True).parameters
    context = next((name for name, item in parameters.items() if item.annotation is Context), None)
    wanted = set(parameters) - {context}
    offered = set(template.variables) if template is not None else set()
    if wanted != offered:
        raise DefinitionError(
            f"{function.__name__!r} takes {sorted(wanted)}, but {uri!r} has the variables {sorted(offered)}; "
            "they must be the same"
        )
    return context
