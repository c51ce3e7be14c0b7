"""Advantage, notation and pictures, as callers of tools see them."""

import base64
import struct
import sys
from pathlib import Path

import pytest
from tests.packs.tabletop.keepers import *  # noqa: F403
from tests.packs.tabletop.tables import at_a_table

from hubbub.packs.tabletop import duality
from hubbub.packs.tabletop.failures import InvalidArgument
from hubbub.packs.tabletop.randomness import RngRequest
