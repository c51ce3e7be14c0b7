"""A fuller server: typed results, progress, a resource, a template, a prompt.

Try it with `hubbub serve examples/weather.py --transport stdio`. The weather is made up,
but the same city has the same weather every time.
"""

from dataclasses import dataclass
from typing import Literal
from zlib import crc32

from hubbub import Context, Server, ToolError, run

server = Server("weather", instructions="Ask for a forecast by city; `weather://cities` lists the cities.")

CITIES = {"Bergen": (4, 17), "Cairo": (14, 36), "Lima": (15, 27), "Osaka": (5, 33)}
"""The coldest and the warmest day of the year in each, in °C."""


@dataclass
class Day:
    """The weather of one day."""

    day: int
    sky: Literal["clear", "cloudy", "rain"]
    degrees_celsius: int


@dataclass
class Forecast:
    """The next days in one city."""

    city: str
    days: list[Day]


@server.tool
async def forecast(city: str, context: Context, days: int = 3) -> Forecast:
    """Forecast the weather of a city.

    Args:
        city: One of the cities in weather://cities.
        days: How many days to look ahead, at most 14.
    """
    if city not in CITIES:
        raise ToolError(f"No forecast for {city!r}; cities: {', '.join(CITIES)}")
    if not 1 <= days <= 14:
        raise ToolError("`days` must be from 1 to 14")
    found = []
    for day in range(1, days + 1):
        found.append(invent_weather(city, day))
        await context.progress(day, days, f"day {day}")
    return Forecast(city, found)


def invent_weather(city: str, day: int) -> Day:
    """Make up the weather of a day."""
    low, high = CITIES[city]
    number = crc32(f"{city} {day}".encode())
    skies: tuple[Literal["clear", "cloudy", "rain"], ...] = ("clear", "cloudy", "rain")
    return Day(day, skies[number % 3], low + number % (high - low + 1))


@server.resource("weather://cities", mime_type="text/plain")
def cities() -> str:
    """The cities that have a forecast, one on each line."""
    return "\n".join(CITIES)


@server.resource("weather://{city}/range", mime_type="application/json")
def temperature_range(city: str) -> dict[str, int] | None:
    """The coldest and the warmest day of the year in a city."""
    if city not in CITIES:
        return None
    low, high = CITIES[city]
    return {"low": low, "high": high}


@server.prompt
def pack_for(city: str) -> str:
    """Plan what to pack for a trip."""
    return f"I am going to {city}. Look at the forecast for the next five days and tell me what to pack."


@server.completion("pack_for", "city")
def complete_city(value: str) -> list[str]:
    """Suggest cities that begin with what was typed."""
    return [city for city in CITIES if city.lower().startswith(value.lower())]


if __name__ == "__main__":
    run(server)
