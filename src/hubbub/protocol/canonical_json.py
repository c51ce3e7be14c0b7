"""Canonical JSON (RFC 8785): one value, one sequence of bytes, one digest.

For what is signed, pinned or compared by digest. Not for the wire: messages keep
the order and the spelling they have. The library is loaded on first use, since
most runs do not need it.
"""

from __future__ import annotations

from typing import Any

from hubbub.errors import InvalidParams


def encode_canonical(value: Any) -> bytes:
    """Encode a JSON value in its canonical form.

    Raises: InvalidParams, if the value has no such form: NaN and infinities,
    integers of 2^53 and beyond, lone surrogates, keys that are not strings, types
    that JSON does not have, and values nested too deep.
    """
    import rfc8785

    try:
        return rfc8785.dumps(value)
    except rfc8785.IntegerDomainError as error:
        raise InvalidParams("An integer of 2^53 or beyond has no canonical JSON form; send it as a string") from error
    except rfc8785.FloatDomainError as error:
        raise InvalidParams("NaN and infinity have no JSON form; send null or a string") from error
    except UnicodeEncodeError as error:
        # The library sorts keys before it checks them.
        raise InvalidParams("A key with a lone surrogate has no canonical JSON form; send valid Unicode") from error
    except rfc8785.CanonicalizationError as error:
        raise InvalidParams(f"A value has no canonical JSON form: {error}") from error
    except ValueError as error:
        # Python refuses to print an integer of more than 4300 digits.
        raise InvalidParams("An integer of 2^53 or beyond has no canonical JSON form; send it as a string") from error
    except RecursionError as error:
        raise InvalidParams("A value is nested too deep for a canonical JSON form") from error


def canonical_digest(value: Any) -> str:
    """Return the SHA-256 of a JSON value's canonical form, in hexadecimal."""
    from hashlib import sha256

    return sha256(encode_canonical(value)).hexdigest()
