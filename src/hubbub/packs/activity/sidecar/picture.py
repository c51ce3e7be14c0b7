"""Pictures: open with limits, blacken, enlarge for text recognition, annotate. The only importer of Pillow."""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO
from math import ceil, floor
from typing import TYPE_CHECKING, Any, Final

from hubbub.packs.activity import limits
from hubbub.packs.activity.privacy import Box
from hubbub.packs.activity.sidecar.engine import SidecarError

if TYPE_CHECKING:
    from PIL.Image import Image

_TEXT_COLOUR: Final = "#2e7d32"
_OTHER_COLOUR: Final = "#a93226"
_OCR_SCALE: Final = 2
_LARGE_SIDE_PIXELS: Final = 4000
_FORMATS: Final = ("PNG", "JPEG", "WEBP", "BMP")


class Picture:
    """A picture in memory; never on disk."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self.width, self.height = image.size

    @classmethod
    def decode(cls, data: bytes) -> Picture:
        """Raises: SidecarError, if the data is not a picture, or the picture is too large for memory."""
        from PIL import Image, UnidentifiedImageError

        try:
            with Image.open(BytesIO(data), formats=_FORMATS) as opened:
                if opened.width * opened.height > limits.SIDECAR_PIXELS:
                    size = f"{opened.width} x {opened.height}"
                    message = f"the picture has {size} pixels; the maximum is {limits.SIDECAR_PIXELS} in total"
                    raise SidecarError(413, "image_too_large", message)
                return cls(opened.convert("RGB"))
        except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            message = f"the picture cannot be opened ({type(error).__name__}); send {', '.join(_FORMATS)}"
            raise SidecarError(400, "invalid_image", message) from error

    @classmethod
    def from_screen(cls, size: tuple[int, int], pixels: bytes) -> Picture:
        """Convert the data of a screenshot: blue, green, red and an unused byte for each pixel."""
        from PIL import Image

        return cls(Image.frombytes("RGB", size, pixels, "raw", "BGRX"))

    @classmethod
    def with_text(cls, text: str) -> Picture:
        """Draw a text on an empty picture, to test whether it can be recognised."""
        from PIL import Image, ImageDraw

        image = Image.new("RGB", (260, 60), "white")
        ImageDraw.Draw(image).text((20, 12), text, fill="black", font_size=28)
        return cls(image)

    def crop(self, box: Box) -> Picture:
        """Return a part of the picture."""
        left, top, right, bottom = (round(value) for value in box)
        area = (max(left, 0), max(top, 0), min(right, self.width), min(bottom, self.height))
        if area[0] >= area[2] or area[1] >= area[3]:
            raise SidecarError(400, "invalid_region", "the region lies outside the picture")
        return Picture(self._image.crop(area))

    def blacken(self, boxes: Iterable[Box]) -> None:
        """Fill boxes with black."""
        from PIL import ImageDraw

        draw = ImageDraw.Draw(self._image)
        for left, top, right, bottom in boxes:
            corners = (floor(left), floor(top), ceil(right) - 1, ceil(bottom) - 1)  # the ends are drawn too
            if corners[0] <= corners[2] and corners[1] <= corners[3]:
                draw.rectangle(corners, fill="black")

    def for_ocr(self) -> tuple[bytes, int]:
        """Return a grey, enlarged PNG and its scale: small letters are not recognised at their original size."""
        scale = _OCR_SCALE if max(self.width, self.height) <= _LARGE_SIDE_PIXELS else 1
        grey = self._image.convert("L").resize((self.width * scale, self.height * scale))
        return _encode_png(grey, compress_level=1), scale

    def to_annotated_png(self, elements: Iterable[dict[str, Any]]) -> bytes:
        """Return a PNG with a numbered box around each element."""
        from PIL import ImageDraw

        image = self._image.copy()
        draw = ImageDraw.Draw(image)
        for number, element in enumerate(elements):
            left, top, right, bottom = self.to_pixels(element["bbox"])
            colour = _TEXT_COLOUR if element["type"] == "text" else _OTHER_COLOUR
            draw.rectangle((left, top, max(right, left), max(bottom, top)), outline=colour, width=2)
            draw.text((left + 2, max(top - 11, 0)), str(number), fill=colour)
        return _encode_png(image, compress_level=3)

    def to_pixels(self, box: Iterable[float]) -> Box:
        """Convert a box from ratios to pixels; a box in pixels stays unchanged."""
        left, top, right, bottom = (float(value) for value in box)
        if max(left, top, right, bottom) > 1.5:
            return left, top, right, bottom
        return left * self.width, top * self.height, right * self.width, bottom * self.height

    def to_ratios(self, box: Box) -> list[float]:
        """Convert a box from pixels to ratios of this picture."""
        left, top, right, bottom = box
        return [
            round(min(max(value, 0.0), 1.0), 5)
            for value in (left / self.width, top / self.height, right / self.width, bottom / self.height)
        ]


def version() -> str:
    """Return the version of Pillow.

    Raises: ImportError.
    """
    import PIL

    return PIL.__version__


def _encode_png(image: Image, compress_level: int) -> bytes:
    out = BytesIO()
    image.save(out, "PNG", compress_level=compress_level)
    return out.getvalue()
