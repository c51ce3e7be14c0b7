"""A secret that stays hidden in logs, tracebacks, JSON and pickles."""

from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

_HIDDEN: Final = "********"


class Secret:
    """Text that is hidden in logs and messages; `reveal` returns it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself; keep it in as few places as possible."""
        return self._text

    def __repr__(self) -> str:
        return f"Secret({_HIDDEN})"

    def __str__(self) -> str:
        return _HIDDEN

    def __format__(self, form: str) -> str:
        return format(_HIDDEN, form)

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret cannot be copied or pickled; pass the object itself")


class SecretTemplate(Secret):
    """Text with references to secrets, `Bearer ${secret:NAME}`; `reveal` returns it with the references."""

    __slots__ = ("_literals", "names")

    def __init__(self, literals: Sequence[str], names: Sequence[str]) -> None:
        """Make it from the texts around the references, one more than `names`. They are not searched for more."""
        self._literals = tuple(literals)
        self.names = tuple(names)
        super().__init__(self.fill({name: f"${{secret:{name}}}" for name in names}))

    def fill(self, values: Mapping[str, str]) -> str:
        """The text with these values in place of the references."""
        first, *rest = self._literals
        return first + "".join(values[name] + literal for name, literal in zip(self.names, rest, strict=True))
