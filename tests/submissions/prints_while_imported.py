"""Prints in every way there is while it is imported, and again when it is called."""

import ctypes
import logging
import os
import sys
import warnings

print("by Python")
print("as a complaint", file=sys.stderr)
os.write(1, b"below Python\n")
ctypes.CDLL(None).puts(b"by C")
warnings.warn("beware", stacklevel=1)
handler = logging.StreamHandler()


def attention(query, key, value):
    handler.stream.write("later")
    print("now")
