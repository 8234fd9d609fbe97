"""The English–French set, what models read of it, and files of other pairs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from attnsuite.documents.learning.sentences import grammar
from attnsuite.documents.learning.sentences.loading import SHIPPED, pairs
from attnsuite.documents.learning.sentences.preprocessing import END, PAD, RESERVED, UNKNOWN, Corpus, Vocabulary, tokens
from attnsuite.model import UsageError

Write = Callable[[str, str], Path]


def test_the_set_is_what_its_grammar_writes() -> None:
    assert SHIPPED.read_text(encoding="utf-8") == grammar.written()


def test_the_set_has_a_thousand_pairs_each_english_once() -> None:
    found = pairs()

    assert len(found) >= 1000
    assert len({source for source, _ in found}) == len(found)
    assert all(len(tokens(each)) < 9 for pair in found for each in pair)  # so that the end token fits into 9 steps


@pytest.mark.parametrize(
    ("english", "french"),
    [
        ("Go.", "Va !"),
        ("He's calm.", "Il est calme."),
        ("She's happy.", "Elle est heureuse."),
        ("They're old.", "Ils sont vieux."),
        ("We're tired.", "Nous sommes fatigués."),
        ("She's kind.", "Elle est gentille."),
        ("I'm not here.", "Je ne suis pas ici."),
        ("You're not late.", "Tu n'es pas en retard."),
        ("Is he cold?", "A-t-il froid ?"),
        ("Are they wrong?", "Ont-ils tort ?"),
        ("Am I home?", "Suis-je chez moi ?"),
        ("She fell.", "Elle est tombée."),
        ("They didn't leave.", "Ils ne sont pas partis."),
        ("Marie arrived.", "Marie est arrivée."),
        ("Marie sang.", "Marie a chanté."),
        ("I didn't eat.", "Je n'ai pas mangé."),
        ("Don't listen.", "N'écoute pas !"),
        ("Let's start.", "Commençons !"),
        ("He has an apple.", "Il a une pomme."),
        ("They see a bike.", "Ils voient un vélo."),
    ],
)
def test_french_agrees(english: str, french: str) -> None:
    assert dict(grammar.pairs())[english] == french


def test_french_typography_is_in_the_file() -> None:
    assert dict(pairs())["Go."] == "Va\N{NARROW NO-BREAK SPACE}!"


# What models read


def test_tokens_are_lower_case_and_cut_before_signs() -> None:
    assert tokens("He's calm.") == ["he's", "calm", "."]
    assert tokens("Va\N{NARROW NO-BREAK SPACE}!") == ["va", "!"]
    assert tokens("Merci,\N{NO-BREAK SPACE}Tom  !") == ["merci", ",", "tom", "!"]


def test_a_vocabulary_has_the_frequent_words_after_the_reserved_ones() -> None:
    found = Vocabulary.of([["a", "b"], ["b", "c"], ["c"]])

    assert found.words == (*RESERVED, "b", "c")
    assert found["a"] == found[UNKNOWN]
    assert len(found) == 6


def test_rows_end_are_padded_and_cut() -> None:
    found = Vocabulary.of([["a", "b", "c"]], min_frequency=1)
    rows, lengths = found.rows([["a"], ["a", "b", "c", "a"]], steps=4)

    assert [[found.words[each] for each in row] for row in rows.tolist()] == [
        ["a", END, PAD, PAD],
        ["a", "b", "c", "a"],
    ]
    assert lengths.tolist() == [2, 4]
    assert found.sentence(rows[0].tolist()) == ["a"]


def test_the_decoder_reads_what_follows_shifted_by_one() -> None:
    found = Corpus.of([("A b.", "C d.")] * 2, steps=5)
    source, lengths, begun, following = found.arrays

    def said(row: list[int]) -> list[str]:
        return [found.target.words[each] for each in row]

    assert [found.source.words[each] for each in source[0].tolist()] == ["a", "b", ".", END, PAD]
    assert lengths.tolist() == [4, 4]
    assert said(begun[0].tolist()) == ["<bos>", "c", "d", ".", END]
    assert said(following[0].tolist()) == ["c", "d", ".", END, PAD]


def test_unknown_words_are_named() -> None:
    known = Corpus.of(pairs(), 9).source

    assert known.known("He's calm.") == ["he's", "calm", "."]
    with pytest.raises(UsageError, match=r"^unknown words in 'The zebra is calm\.': the, zebra; \d+ words are known$"):
        known.known("The zebra is calm.")


# Files


def test_pairs_of_a_file_are_read_without_what_follows(write: Write) -> None:
    path = write("fra.txt", "Go.\tVa !\tCC-BY 2.0\nHi.\tSalut !\n\n")

    assert pairs(path) == [("Go.", "Va !"), ("Hi.", "Salut !")]


def test_windows_line_ends_and_a_byte_order_mark_are_no_part_of_pairs(tmp_path: Path) -> None:
    (tmp_path / "fra.txt").write_bytes("\ufeffGo.\tVa !\r\nHi.\tSalut !\r\n".encode())

    assert pairs(tmp_path / "fra.txt") == [("Go.", "Va !"), ("Hi.", "Salut !")]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", r"fra\.txt has no pair; pairs of sentences are due"),
        (b"\n\t \t\n", r"fra\.txt has no pair"),
        (b"Go.\tVa !\nHi. Salut !\n", r"fra\.txt, line 2: no tab in 'Hi\. Salut !'; source, tab, target are due"),
        (b"Go.\tVa !\n\tSalut !\n", r"fra\.txt, line 2: nothing on one side of the tab"),
        (b"Go.\tVa !\nHi.\t\xff\n", r"fra\.txt, line 2: the byte 0xff is not UTF-8"),
        (b"Go.\tVa !\nHi <EOS> .\tSalut !\n", r"fra\.txt, line 2: <eos> in .* is a token of attnsuite's own"),
        (b"Go.\t<pad>\n", r"fra\.txt, line 1: <pad> in "),
        (b"Go.\tVa !\rHi.\tSalut !\r", r"fra\.txt, line 1: '\\r' in .*; text is due, a pair on each line"),
        ("Go.\tVa !\n".encode("utf-16-le"), r"fra\.txt, line 1: '\\x00' in "),
    ],
)
def test_a_file_that_is_not_pairs_is_named_with_its_line(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "fra.txt"
    path.write_bytes(data)

    with pytest.raises(UsageError, match=says):
        pairs(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.txt cannot be read \(No such file or directory\)"):
        pairs(tmp_path / "absent.txt")
