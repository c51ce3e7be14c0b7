"""Tests of a server: examples/weather.py, called in the same process.

Run them in this folder with `python -m pytest test_weather.py`. They use `asyncio.run`, so that they need no plugin;
with pytest-asyncio or anyio the functions would be `async def`.
"""

import asyncio

import pytest
from weather import server

from hubbub import SUPPORTED_PROTOCOL_VERSIONS, Client, RemoteError


@pytest.mark.parametrize("version", SUPPORTED_PROTOCOL_VERSIONS)
def test_a_forecast_has_as_many_days_as_asked_for(version: str) -> None:
    async def main() -> None:
        async with Client(server, protocol_version=version) as client:
            result = await client.call_tool("forecast", {"city": "Lima", "days": 2})
            assert result.text.count("degrees_celsius") == 2

    asyncio.run(main())


def test_an_unknown_city_is_an_error_that_names_the_cities() -> None:
    async def main() -> None:
        async with Client(server) as client:
            result = await client.call_tool("forecast", {"city": "Atlantis"})
            assert result.is_error
            assert "Bergen, Cairo, Lima, Osaka" in result.text

    asyncio.run(main())


def test_an_unknown_city_has_no_temperature_range() -> None:
    async def main() -> None:
        async with Client(server) as client:
            assert (await client.read_resource("weather://Cairo/range")).contents
            with pytest.raises(RemoteError):
                await client.read_resource("weather://Atlantis/range")

    asyncio.run(main())
