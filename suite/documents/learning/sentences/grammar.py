"""The grammar that writes the English–French set: short everyday sentences, with French agreement.

`python -m attnsuite.documents.learning.sentences.grammar` writes [english_french.tsv](english_french.tsv). Where
English leaves a gender open, French has the masculine.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

Pair = tuple[str, str]
FILE = Path(__file__).with_name("english_french.tsv")
NARROW = "\N{NARROW NO-BREAK SPACE}"
"""What French typography has before ! and ?."""


class Subject(NamedTuple):
    """Who acts: in English with `to be`, in French with the present of être and avoir."""

    english: str
    be: str
    contracted: str
    french: str
    être: str
    avoir: str
    inverted: tuple[str, str]
    """être and avoir with the subject after them, as questions have it."""
    agreement: str
    """What an adjective or a participle ends in."""
    pronoun: str
    """After chez."""


SUBJECTS = (
    Subject("I", "am", "I'm", "je", "suis", "ai", ("suis-je", "ai-je"), "", "moi"),
    Subject("you", "are", "you're", "tu", "es", "as", ("es-tu", "as-tu"), "", "toi"),
    Subject("he", "is", "he's", "il", "est", "a", ("est-il", "a-t-il"), "", "lui"),
    Subject("she", "is", "she's", "elle", "est", "a", ("est-elle", "a-t-elle"), "e", "elle"),
    Subject("we", "are", "we're", "nous", "sommes", "avons", ("sommes-nous", "avons-nous"), "s", "nous"),
    Subject("they", "are", "they're", "ils", "sont", "ont", ("sont-ils", "ont-ils"), "s", "eux"),
)
TOM = Subject("Tom", "is", "Tom's", "Tom", "est", "a", ("est-il", "a-t-il"), "", "lui")
MARIE = Subject("Marie", "is", "Marie's", "Marie", "est", "a", ("est-elle", "a-t-elle"), "e", "elle")
EVERYBODY = (*SUBJECTS, TOM, MARIE)

ADJECTIVES = {
    "calm": "calme", "sad": "triste", "sick": "malade", "rich": "riche", "poor": "pauvre", "young": "jeune",
    "tired": "fatigué", "small": "petit", "tall": "grand", "strong": "fort", "alone": "seul", "busy": "occupé",
    "polite": "poli", "ready": "prêt",
}  # fmt: skip
"""Adjectives whose feminine adds an e (unless they end in one) and whose plural adds an s."""
IRREGULAR = {
    "happy": {"": "heureux", "e": "heureuse", "s": "heureux"},
    "old": {"": "vieux", "e": "vieille", "s": "vieux"},
    "serious": {"": "sérieux", "e": "sérieuse", "s": "sérieux"},
    "kind": {"": "gentil", "e": "gentille", "s": "gentils"},
}
"""Other adjectives, by agreement."""
PLACES = {"here": "ici", "late": "en retard", "early": "en avance", "outside": "dehors", "in Paris": "à Paris"}
"""Words that agree with nothing."""
STATES = {
    "hungry": "faim", "thirsty": "soif", "cold": "froid", "hot": "chaud", "afraid": "peur", "sleepy": "sommeil",
    "right": "raison", "wrong": "tort",
}  # fmt: skip
"""What one is in English, and has in French."""

DONE = {
    "lost": ("lose", "perdu"), "won": ("win", "gagné"), "slept": ("sleep", "dormi"), "ate": ("eat", "mangé"),
    "drank": ("drink", "bu"), "worked": ("work", "travaillé"), "understood": ("understand", "compris"),
    "laughed": ("laugh", "ri"), "cried": ("cry", "pleuré"), "tried": ("try", "essayé"), "paid": ("pay", "payé"),
    "waited": ("wait", "attendu"), "finished": ("finish", "fini"), "forgot": ("forget", "oublié"),
    "lied": ("lie", "menti"), "sang": ("sing", "chanté"), "danced": ("dance", "dansé"),
    "answered": ("answer", "répondu"), "smiled": ("smile", "souri"), "ran": ("run", "couru"),
}  # fmt: skip
"""By the English past: the English verb, and the participle that goes with avoir."""
GONE = {
    "left": ("leave", "parti"), "arrived": ("arrive", "arrivé"), "stayed": ("stay", "resté"),
    "fell": ("fall", "tombé"), "came back": ("come back", "revenu"),
}  # fmt: skip
"""By the English past: the English verb, and the participle that goes with être."""

ORDERS = {
    "run": ("cours", "courons"), "wait": ("attends", "attendons"), "sing": ("chante", "chantons"),
    "dance": ("danse", "dansons"), "work": ("travaille", "travaillons"), "eat": ("mange", "mangeons"),
    "drink": ("bois", "buvons"), "sleep": ("dors", "dormons"), "listen": ("écoute", "écoutons"),
    "look": ("regarde", "regardons"), "leave": ("pars", "partons"), "stay": ("reste", "restons"),
    "try": ("essaie", "essayons"), "start": ("commence", "commençons"),
}  # fmt: skip
"""What one person is told to do, and what several tell themselves."""
SAID = (
    ("Go.", "Va !"), ("Go home.", "Va chez toi !"), ("Go there.", "Va là-bas !"), ("Stay there.", "Reste là-bas !"),
    ("Go to Paris.", "Va à Paris !"), ("Come here.", "Viens ici !"), ("Come to Paris.", "Viens à Paris !"),
    ("Come home.", "Viens chez moi !"), ("Stay here.", "Reste ici !"), ("Wait here.", "Attends ici !"),
    ("Wait outside.", "Attends dehors !"), ("Thank you.", "Merci !"), ("Thank you, Tom.", "Merci, Tom !"),
    ("Hello.", "Bonjour !"), ("Hello, Tom.", "Bonjour, Tom !"), ("Hello, Marie.", "Bonjour, Marie !"),
)  # fmt: skip
"""Sentences of no pattern."""

HAVE = ("ai", "as", "a", "a", "avons", "ont")
WANT = ("veux", "veux", "veut", "veut", "voulons", "veulent")
SEE = ("vois", "vois", "voit", "voit", "voyons", "voient")
THINGS = {
    "book": "un livre", "dog": "un chien", "cat": "un chat", "car": "une voiture", "house": "une maison",
    "apple": "une pomme", "key": "une clé", "pen": "un stylo", "bike": "un vélo", "hat": "un chapeau",
    "chair": "une chaise", "letter": "une lettre",
}  # fmt: skip


def pairs() -> list[Pair]:
    """All pairs, each once, the shortest English first."""
    patterns = (*SAID, *orders(), *being(), *having(), *doing(), *going(), *owning())
    return sorted(dict.fromkeys(patterns), key=lambda pair: (len(pair[0].split()), len(pair[0]), pair))


def orders() -> Iterator[Pair]:
    """Run, don't run, let's run."""
    for english, (one, several) in ORDERS.items():
        yield f"{english.capitalize()}.", f"{one.capitalize()} !"
        yield f"Don't {english}.", f"{negated(one).capitalize()} !"
        yield f"Let's {english}.", f"{several.capitalize()} !"


def being() -> Iterator[Pair]:
    """What she is, what she is not, and whether she is."""
    for who in SUBJECTS:
        for english, french in described(who):
            asked, _ = who.inverted
            yield statement(f"{who.contracted} {english}", f"{who.french} {who.être} {french}")
            yield statement(f"{who.contracted} not {english}", f"{who.french} {negated(who.être)} {french}")
            yield question(f"{who.be} {who.english} {english}", f"{asked} {french}")
    for who in (TOM, MARIE):
        for english, french in described(who):
            yield statement(f"{who.english} is {english}", f"{who.french} {who.être} {french}")


def described(who: Subject) -> Iterator[Pair]:
    """What somebody is."""
    for english, french in ADJECTIVES.items():
        yield english, french if french.endswith("e") and who.agreement == "e" else french + who.agreement
    for english, forms in IRREGULAR.items():
        yield english, forms[who.agreement]
    yield from PLACES.items()
    yield "home", f"chez {who.pronoun}"


def having() -> Iterator[Pair]:
    """Whether she is hungry, which in French she has: hunger."""
    for who in SUBJECTS:
        for english, french in STATES.items():
            _, asked = who.inverted
            yield statement(f"{who.contracted} {english}", f"{joined(who.french, who.avoir)} {french}")
            yield statement(f"{who.contracted} not {english}", f"{who.french} {negated(who.avoir)} {french}")
            yield question(f"{who.be} {who.english} {english}", f"{asked} {french}")


def doing() -> Iterator[Pair]:
    """She won. She didn't win."""
    for who in EVERYBODY:
        for past, (english, participle) in DONE.items():
            yield statement(f"{who.english} {past}", f"{joined(who.french, who.avoir)} {participle}")
            yield statement(f"{who.english} didn't {english}", f"{who.french} {negated(who.avoir)} {participle}")


def going() -> Iterator[Pair]:
    """She left. She didn't leave. In French with être, and participles that agree."""
    for who in EVERYBODY:
        for past, (english, participle) in GONE.items():
            agreeing = participle + who.agreement
            yield statement(f"{who.english} {past}", f"{who.french} {who.être} {agreeing}")
            yield statement(f"{who.english} didn't {english}", f"{who.french} {negated(who.être)} {agreeing}")


def owning() -> Iterator[Pair]:
    """She has, wants or sees a book."""
    for place, who in enumerate(SUBJECTS):
        for verb, forms in (("have", HAVE), ("want", WANT), ("see", SEE)):
            for english, french in THINGS.items():
                says = {"have": "has"}.get(verb, f"{verb}s") if who.be == "is" else verb
                yield statement(
                    f"{who.english} {says} {article(english)}", f"{joined(who.french, forms[place])} {french}"
                )


def article(noun: str) -> str:
    """A noun with a or an before it."""
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def joined(subject: str, verb: str) -> str:
    """Subject and verb: je loses its e before a vowel."""
    return f"j'{verb}" if subject == "je" and verb[0] in VOWELS else f"{subject} {verb}"


def negated(verb: str) -> str:
    """ne … pas around a verb: ne loses its e before a vowel."""
    return f"n'{verb} pas" if verb[0] in VOWELS else f"ne {verb} pas"


VOWELS = "aeiouyéèêà"
"""What je and ne lose their e before; no verb here begins with an h."""


def statement(english: str, french: str) -> Pair:
    """Both with a capital and a full stop."""
    return f"{_capital(english)}.", f"{_capital(french)}."


def question(english: str, french: str) -> Pair:
    """Both with a capital and a question mark."""
    return f"{_capital(english)}?", f"{_capital(french)} ?"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def written() -> str:
    """The text of the file: a pair per line, English and French with a tab between them."""
    lines = (f"{english}\t{french}" for english, french in pairs())
    return "".join(f"{line.replace(' !', f'{NARROW}!').replace(' ?', f'{NARROW}?')}\n" for line in lines)


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
