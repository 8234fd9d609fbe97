"""Data that models learn from: pairs of sentences as tokens and numbers, and their translations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import torch
from torch import Tensor

from attnsuite import registry
from attnsuite.contracts.models.eager import Run, Translating
from attnsuite.model import UsageError
from attnsuite.registry import Loaded

Pair = tuple[str, str]
SHIPPED = Path(__file__).with_name("english_french.tsv")
"""The English–French set that ships."""
PAD, BEGIN, END, UNKNOWN = RESERVED = ("<pad>", "<bos>", "<eos>", "<unk>")
"""The first tokens of each vocabulary."""
SPACES = str.maketrans({"\N{NARROW NO-BREAK SPACE}": " ", "\N{NO-BREAK SPACE}": " "})
GRAMS = 2
"""The longest n-grams that BLEU counts, as documents, section 11.4.3, counts them."""

# Pairs of sentences


def pairs() -> list[Pair]:
    """The pairs of the shipped set. Its format is that of fra.txt: source, tab, target."""
    lines = SHIPPED.read_text(encoding="utf-8").split("\n")
    return [(source, target) for source, target in (line.split("\t")[:2] for line in lines if line)]


def tokens(sentence: str) -> list[str]:
    """The sentence in lower case, cut at spaces and before the signs , . ! ?: `Va !` is `va`, `!`."""
    spaced = "".join(f" {sign}" if sign in ",.!?" else sign for sign in sentence.translate(SPACES).lower())
    return spaced.split()


@dataclass(frozen=True)
class Vocabulary:
    """Tokens and their numbers."""

    words: tuple[str, ...]

    @classmethod
    def of(cls, sentences: Iterable[Sequence[str]], min_frequency: int = 2) -> Vocabulary:
        """The reserved tokens, and sorted tokens that occur at least `min_frequency` times."""
        count = Counter(token for sentence in sentences for token in sentence)
        return cls((*RESERVED, *sorted(token for token, times in count.items() if times >= min_frequency)))

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Return the number of each word."""
        return {word: number for number, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, token: str) -> int:
        """The number of a token, or of `<unk>`."""
        return self.numbers.get(token, self.numbers[UNKNOWN])

    def known(self, sentence: str) -> list[str]:
        """The tokens of a sentence. Raises UsageError for words that are not in the vocabulary."""
        words = tokens(sentence)
        if unknown := [token for token in dict.fromkeys(words) if token not in self.numbers]:
            raise UsageError(f"unknown words in {sentence!r:.80}: {', '.join(unknown)}; {len(self)} words are known")
        return words

    def rows(self, sentences: Sequence[Sequence[str]], steps: int, begin: bool = False) -> tuple[Tensor, Tensor]:
        """The sentences as numbers, b steps, and their lengths, b.

        Each ends with `<eos>`, is cut at `steps` and padded; with `begin` it starts with `<bos>`.
        """
        framed = [([BEGIN] if begin else []) + [*sentence, END] for sentence in sentences]
        padded = [(row + [PAD] * steps)[:steps] for row in framed]
        numbers = torch.tensor([[self[token] for token in row] for row in padded], dtype=torch.int64)
        return numbers.reshape(-1, steps), torch.tensor([min(len(row), steps) for row in framed], dtype=torch.int64)

    def sentence(self, numbers: Iterable[int]) -> list[str]:
        """The tokens before the first `<eos>`."""
        words = [self.words[number] for number in numbers]
        return words[: words.index(END)] if END in words else words


@dataclass(frozen=True)
class Corpus:
    """Pairs of sentences as a model reads them."""

    source: Vocabulary
    target: Vocabulary
    steps: int
    arrays: tuple[Tensor, Tensor, Tensor, Tensor]
    """Source, b s; lengths, b; decoder's input, b t, with `<bos>` first; the next token of each position, b t."""

    @classmethod
    def of(cls, pairs: Sequence[Pair], steps: int, min_frequency: int = 2) -> Corpus:
        """The corpus of these pairs, with their vocabularies."""
        sources, targets = ([tokens(pair[side]) for pair in pairs] for side in (0, 1))
        source, target = Vocabulary.of(sources, min_frequency), Vocabulary.of(targets, min_frequency)
        read, lengths = source.rows(sources, steps)
        decoder_input, _ = target.rows(targets, steps + 1, begin=True)
        return cls(source, target, steps, (read, lengths, decoder_input[:, :-1].clone(), decoder_input[:, 1:].clone()))


# Translations


def greedy(model: Run, source: Tensor, lengths: Tensor, target: Vocabulary, steps: int) -> Tensor:
    """The most likely next tokens, b steps, for source b s and lengths b; `<eos>` fills finished rows."""
    options = {"begin": target[BEGIN], "end": target[END], "steps": steps}
    return Translating().translated(model, options, source, lengths)


def translate(model: Run, corpus: Corpus, sentences: Sequence[str]) -> list[list[str]]:
    """The translations of sentences, as tokens. An unknown word is read as `<unk>`."""
    source, lengths = corpus.source.rows([tokens(sentence) for sentence in sentences], corpus.steps)
    numbers = greedy(model, source, lengths, corpus.target, corpus.steps)
    return [corpus.target.sentence(row) for row in numbers.tolist()]


def bleu(translation: Sequence[str], reference: Sequence[str]) -> float:
    """BLEU of a translation's tokens, as the contract `bleu` defines it, with n-grams up to `GRAMS`."""
    numbers = {word: number for number, word in enumerate(dict.fromkeys((*translation, *reference)))}
    rows = (torch.tensor([numbers[word] for word in words], dtype=torch.int64) for words in (translation, reference))
    return float(_bleu()(*rows, k=GRAMS))


@cache
def _bleu() -> Callable[..., float]:
    loaded = registry.load(registry.find(["bleu/eager"])[0])
    assert isinstance(loaded, Loaded), loaded
    return loaded.function
