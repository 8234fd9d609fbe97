"""Declares that it lacks what is timed."""

from attnsuite import implementation


@implementation(lacks={"float32": "doubles only"})
def attention(query, key, value): ...
