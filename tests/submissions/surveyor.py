"""Writes beside itself where its inputs and its scores lie within a page of memory."""

from pathlib import Path

from attnsuite import implementation


@implementation
def attention(query, key, value):
    scores = query @ key.mT
    with Path(__file__).with_suffix(".txt").open("a") as said:
        print(query.data_ptr() % 4096, scores.data_ptr() % 4096, file=said)
    return scores.softmax(-1) @ value
