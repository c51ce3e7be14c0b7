"""Resources: fixed URIs, URI templates, and providers that list their own.

A function registered for a URI or a URI template returns text, bytes or
`ResourceContents`; None means that the resource does not exist. `UriTemplate` checks template
parameters first, so that they cannot contain path traversal.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import UNSET

from hubbub import bounds
from hubbub.errors import DefinitionError, ResourceNotFound
from hubbub.protocol.calls import Call, Caller
from hubbub.protocol.content import Annotations, ResourceContents
from hubbub.protocol.results import ResourceEntry, TemplateEntry
from hubbub.protocol.scopes import required_scopes
from hubbub.protocol.signatures import check_function, default_name, function_doc, partial_arguments
from hubbub.server.context import Context
from hubbub.server.handlers import Handler
from hubbub.server.pagination import SortKey, StableOrder

if TYPE_CHECKING:
    from hubbub.protocol.uri_template import UriTemplate
    from hubbub.server.server import Server


class ResourceDetails(msgspec.Struct, rename="camel"):
    """A resource as listed by a provider."""

    uri: str
    name: str
    description: str | None = None
    mime_type: str | None = None


class ProvidedResource(ResourceDetails, kw_only=True):
    """A resource as returned by a provider: the details and the text."""

    content: str | bytes


class ResourceProvider(Protocol):
    """A provider of contract 001 (docs/decisions/0008): lists its resources, and returns one by URI."""

    def list_resources(self) -> Iterable[ResourceDetails]:
        """Return the details of every resource, in any order."""

    async def get_resource(self, uri: str) -> ProvidedResource | None:
        """Return one resource; None if it does not exist."""


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
        scopes: Collection[str] = (),
    ) -> None:
        check_function(function)
        self.function = function
        self.uri = uri
        self.scopes = required_scopes(scopes, uri)
        """Scopes that a caller needs; the resource is hidden from others."""
        self.template = _parse_template(uri) if "{" in uri else None
        self.mime_type = mime_type
        resource_description = description if description is not None else (function_doc(function) or "")
        self.entry = ResourceEntry(
            uri,
            name or default_name(function),
            resource_description or UNSET,
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
    def may_request_input(self) -> bool:
        """Whether reading may ask the caller something first."""
        return self._handler.context_name is not None

    async def read(self, uri: str, parameters: dict[str, str], call: Call, server: Server) -> list[ResourceContents]:
        """Return the contents.

        Raises: ResourceNotFound.
        """
        value = await self._handler.call(dict(parameters), call, server)
        if value is None:
            raise ResourceNotFound(uri)
        return [_make_contents(uri, item, self.mime_type) for item in (value if isinstance(value, list) else [value])]


class Resources:
    """All resources of a server, in the order in which they were added."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._functions: dict[str, ResourceFunction] = {}
        self.order = StableOrder()
        """The place of each resource and template in its list."""
        self._providers: list[ResourceProvider] = []

    def add(self, resource: ResourceFunction) -> None:
        """Add a resource or template, or replace the one with the same URI."""
        if resource.uri not in self._functions and len(self._functions) >= bounds.TOOLS:
            raise DefinitionError(
                f"cannot register resource {resource.uri!r}: a server holds at most {bounds.TOOLS} resources"
            )
        self._functions[resource.uri] = resource
        self.order.add(resource.uri)
        self._on_change()

    def add_provider(self, provider: ResourceProvider) -> None:
        """Add a provider; its list may change later."""
        self._providers.append(provider)
        self._on_change()

    def remove(self, uri: str) -> bool:
        """Remove a resource or template; return whether there was one."""
        if self._functions.pop(uri, None) is None:
            return False
        self.order.remove(uri)
        self._on_change()
        return True

    def __len__(self) -> int:
        return len(self._functions) + len(self._providers)

    def entries(self, caller: Caller | None = None) -> list[tuple[SortKey, ResourceEntry]]:
        """Return all resources without templates, or those that this caller may see, with their positions.

        Providers may list in any order.
        """
        entries = [
            (self.order[function.uri], function.entry)
            for function in self._visible_functions(caller)
            if function.template is None
        ]
        for number, provider in enumerate(self._providers, start=1):
            provided = {item.uri: item for item in provider.list_resources()}
            entries += [((number, 0, uri), _make_provided_entry(provided[uri])) for uri in sorted(provided)]
        return entries

    def templates(self, caller: Caller | None = None) -> list[ResourceFunction]:
        """Return all templates, or those that this caller may see."""
        return [function for function in self._visible_functions(caller) if function.template is not None]

    def get(self, uri: str) -> ResourceFunction | None:
        """Return the function that was added for exactly this URI or template."""
        return self._functions.get(uri)

    def functions(self) -> list[ResourceFunction]:
        """Return all functions, including those of templates."""
        return list(self._functions.values())

    def _visible_functions(self, caller: Caller | None) -> list[ResourceFunction]:
        return [each for each in self._functions.values() if caller is None or caller.holds(each.scopes)]

    def find(self, uri: str, caller: Caller | None = None) -> tuple[ResourceFunction, dict[str, str]] | None:
        """Return the function for a URI, if this caller may see it, with the template's parameters."""
        exact = self._functions.get(uri)
        if exact is not None and exact.template is None and (caller is None or caller.holds(exact.scopes)):
            return exact, {}
        for function in self.templates(caller):
            assert function.template is not None
            parameters = function.template.match(uri)
            if parameters is not None:
                return function, parameters
        return None

    async def read(self, uri: str, call: Call, server: Server) -> list[ResourceContents]:
        """Return the contents of a resource.

        Raises:
            ResourceNotFound: there is no such resource.
        """
        found = self.find(uri, call.caller)
        if found is not None:
            function, parameters = found
            return await function.read(uri, parameters, call, server)
        for provider in self._providers:
            resource = await provider.get_resource(uri)
            if resource is not None:
                return [_make_contents(resource.uri, resource.content, resource.mime_type)]
        raise ResourceNotFound(uri)


def _make_provided_entry(item: ResourceDetails) -> ResourceEntry:
    return ResourceEntry(item.uri, item.name, item.description or UNSET, item.mime_type or UNSET)


def _make_contents(uri: str, value: Any, mime_type: str | None) -> ResourceContents:
    if isinstance(value, ResourceContents):
        return value
    if isinstance(value, bytes):
        return ResourceContents(uri, mime_type or "application/octet-stream", blob=value)
    if isinstance(value, str):
        return ResourceContents(uri, mime_type or "text/plain", text=value)
    text = msgspec.json.encode(value).decode()
    return ResourceContents(uri, mime_type or "application/json", text=text)


def _parse_template(uri: str) -> UriTemplate:
    from hubbub.protocol.uri_template import UriTemplate  # its patterns take long to compile

    return UriTemplate(uri)


def _check_parameters(function: Callable[..., Any], template: UriTemplate | None, uri: str) -> str | None:
    """Check that every parameter is a variable of the template; return the name of the context parameter."""
    bound = partial_arguments(function)
    declared = inspect.signature(function, eval_str=True).parameters
    parameters = {name: item for name, item in declared.items() if name not in bound}
    context = next((name for name, item in parameters.items() if item.annotation is Context), None)
    parameter_names = set(parameters) - {context}
    variable_names = set(template.variables) if template is not None else set()
    if parameter_names != variable_names:
        raise DefinitionError(
            f"the parameters of {default_name(function)!r} are {sorted(parameter_names)}, but the variables of {uri!r} "
            f"are {sorted(variable_names)}; they must be the same"
        )
    return context
