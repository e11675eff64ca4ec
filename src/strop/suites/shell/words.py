"""The words that tasks are made of: file names, folders, people and values that need no quoting."""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

STEMS = (
    "agenda album annex atlas audit balance basket bill board bonus brief budget bulletin calendar canvas "
    "card cargo case catalog chart charter code contract course credit daily deck demand design desk diary "
    "draft entry essay event export field figure final form gallery grant guide header house inventory "
    "invoice item journal keynote label lesson letter list lot manual map memo menu meter minutes model "
    "module morning notes novel offer order outline packet page paper parcel partner photo plan poem policy "
    "poster price profile program quote recipe record report review roster route rule sample schedule scope "
    "script sheet sketch song source speech staff story summary survey table talk target thesis ticket "
    "timer title tour trade travel update valley visit voice voucher wage weather window yield"
).split()
FOLDERS = (
    "alpha archive backup bay bin box branch bundle cabin cellar center corner dock drawer east "
    "forest garage hall harbor hub inbox island kitchen lab library lobby loft market mill north office "
    "outbox park pier pool port public room shed shelf shop south stage station storage studio tower "
    "upper vault west wing yard zone"
).split()
VALUES = (
    "amber apple apricot arrow ash autumn azure badger bamboo barley basil beacon beaver birch bison blue "
    "bronze candle canyon carrot castle cedar cherry clover cobalt comet copper coral cotton crane crimson "
    "crystal daisy dawn delta desert dolphin dragon dune eagle ebony ember falcon fern flame flint fox "
    "frost garnet ginger glacier gold grape green hazel heron holly honey indigo iris iron ivory ivy jade "
    "jasmine juniper kite lagoon lark laurel lemon lilac lime linen lion lotus lunar lynx magnet mango maple "
    "marble meadow melon mint mist moss nectar nickel oak oasis ocean olive onyx opal orange orchid otter "
    "owl panda pearl pepper pine plum polar poppy prairie quartz rabbit raven reed ridge river robin "
    "rose ruby saffron sage salmon sand scarlet shadow silver snow spark spruce storm sugar summer sunset "
    "swan teal thistle thunder tiger topaz trout tulip turtle velvet violet walnut wave wheat willow winter "
    "wolf yellow zebra"
).split()
PEOPLE = (
    "ada amy anna ben bob clara dan dora emma eric eva finn fred gina greta hans hugo "
    "ida ivan jack jane joel john kai kate ken leo lena lisa lou lucas luke mara max mia mike "
    "nina noah nora olga oscar paul pia rita rosa ruth sara sven tara tom uma vera victor "
    "walt yara zoe kurt olaf peggy quinn ines"
).split()


class Draw:
    """Distinct words, drawn in order from one generator."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self._used: set[str] = set()

    def word(self, pool: Sequence[str]) -> str:
        """A word that this draw has not given before."""
        while (word := self.rng.choice(pool)) in self._used:
            pass
        self._used.add(word)
        return word

    def stem(self) -> str:
        return self.word(STEMS)

    def folder(self) -> str:
        return self.word(FOLDERS)

    def value(self) -> str:
        return self.word(VALUES)

    def person(self) -> str:
        return self.word(PEOPLE)

    def file(self, extension: str = "txt") -> str:
        return f"{self.stem()}.{extension}"

    def lines(self, least: int, most: int) -> str:
        """A file of distinct values, one a line."""
        return "".join(f"{self.value()}\n" for _ in range(self.rng.randint(least, most)))

    def shuffled(self, items: Sequence[T]) -> list[T]:
        return self.rng.sample(list(items), len(items))
