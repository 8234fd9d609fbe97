"""From sentences to what models read, as documents, sections 11.4.3 and 11.7.6, have it: tokens of a fixed number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from attnsuite.model import UsageError

PAD, BEGIN, END, UNKNOWN = "<pad>", "<bos>", "<eos>", "<unk>"
RESERVED = (PAD, BEGIN, END, UNKNOWN)
"""The first tokens of every vocabulary."""
PUNCTUATION = ",.!?"
"""Signs that are tokens of their own."""
SPACES = str.maketrans({"\N{NARROW NO-BREAK SPACE}": " ", "\N{NO-BREAK SPACE}": " "})


def tokens(sentence: str) -> list[str]:
    """A sentence in lower case, cut at spaces, of which there is one before each sign: `Va !` is `va`, `!`."""
    spaced = "".join(f" {sign}" if sign in PUNCTUATION else sign for sign in sentence.translate(SPACES).lower())
    return spaced.split()


@dataclass(frozen=True)
class Vocabulary:
    """Tokens and their numbers."""

    words: tuple[str, ...]

    @classmethod
    def of(cls, sentences: Iterable[Sequence[str]], min_frequency: int = 2) -> Vocabulary:
        """The reserved tokens, and those that stand in the sentences `min_frequency` times or more, sorted."""
        count = Counter(token for sentence in sentences for token in sentence)
        return cls((*RESERVED, *sorted(token for token, times in count.items() if times >= min_frequency)))

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, token: str) -> int:
        """The number of a token; of `<unk>` where it is unknown."""
        return self.numbers.get(token, self.numbers[UNKNOWN])

    def known(self, sentence: str) -> list[str]:
        """The tokens of a sentence. Raises UsageError for words that are not in the vocabulary."""
        found = tokens(sentence)
        if unknown := [token for token in dict.fromkeys(found) if token not in self.numbers]:
            raise UsageError(f"unknown words in {sentence!r:.80}: {', '.join(unknown)}; {len(self)} words are known")
        return found

    def rows(self, sentences: Sequence[Sequence[str]], steps: int, begin: bool = False) -> tuple[Tensor, Tensor]:
        """The sentences as numbers, b steps, and how many tokens of each count, b.

        Each ends with `<eos>`, is cut at `steps`, and is padded; with `begin` it starts with `<bos>`.
        """
        framed = [([BEGIN] if begin else []) + [*sentence, END] for sentence in sentences]
        padded = [(row + [PAD] * steps)[:steps] for row in framed]
        numbers = torch.tensor([[self[token] for token in row] for row in padded], dtype=torch.int64)
        return numbers.reshape(-1, steps), torch.tensor([min(len(row), steps) for row in framed], dtype=torch.int64)

    def sentence(self, numbers: Iterable[int]) -> list[str]:
        """The tokens before the first `<eos>`."""
        found = [self.words[number] for number in numbers]
        return found[: found.index(END)] if END in found else found


@dataclass(frozen=True)
class Corpus:
    """Pairs of sentences as a model reads them: sources and their lengths, targets that begin, and targets that end."""

    source: Vocabulary
    target: Vocabulary
    steps: int
    arrays: tuple[Tensor, Tensor, Tensor, Tensor]
    """Source, b s; lengths, b; decoder's input, b t, with `<bos>` first; what follows each of its tokens, b t."""

    @classmethod
    def of(cls, pairs: Sequence[tuple[str, str]], steps: int, min_frequency: int = 2) -> Corpus:
        """The corpus of these pairs, with vocabularies of their own."""
        sources, targets = [tokens(each) for each, _ in pairs], [tokens(each) for _, each in pairs]
        source, target = Vocabulary.of(sources, min_frequency), Vocabulary.of(targets, min_frequency)
        read, lengths = source.rows(sources, steps)
        begun, _ = target.rows(targets, steps + 1, begin=True)
        return cls(source, target, steps, (read, lengths, begun[:, :-1].clone(), begun[:, 1:].clone()))
