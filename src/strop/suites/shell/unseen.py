"""Families that no training split holds: they ask for known commands in combinations never practised."""

from strop.suites.shell.plan import Facts, Plan, Step
from strop.suites.shell.reading import settings
from strop.suites.shell.text import log
from strop.suites.shell.words import Draw


def swap(draw: Draw, difficulty: str) -> Plan:
    a, b, c, spare = draw.file(), draw.file(), draw.file(), draw.file()
    texts = {name: draw.lines(1, 2) for name in (a, b, c)}
    exchange = (Step(f"mv {a} {spare}"), Step(f"mv {b} {a}"), Step(f"mv {spare} {b}"))
    if difficulty == "easy":
        return Plan(
            (
                "Exchange the contents of {a} and {b}.",
                "Swap the files {a} and {b}.",
                "{a} must hold what {b} holds, and {b} what {a} holds.",
                "The files {a} and {b} got each other's names. Put that right.",
            ),
            {"a": a, "b": b},
            texts,
            {a: texts[b], b: texts[a]},
            exchange,
        )
    if difficulty == "medium":
        return Plan(
            (
                "Swap the files {a} and {b}, then delete {c}.",
                "Exchange the contents of {a} and {b} and remove {c}.",
                "{a} must hold what {b} holds and {b} what {a} holds, and {c} must go.",
                "The files {a} and {b} got each other's names. Put that right and get rid of {c}.",
            ),
            {"a": a, "b": b, "c": c},
            texts,
            {a: texts[b], b: texts[a], c: None},
            (*exchange, Step(f"rm {c}")),
        )
    return Plan(
        (
            "Rotate three files: {a} takes the name {b}, {b} the name {c}, and {c} the name {a}.",
            "Move {a} to {b}, {b} to {c} and {c} to {a}, so that nothing is lost.",
            "After your work {b} must hold what {a} holds now, {c} what {b} holds, and {a} what {c} holds.",
            "Pass the contents on: from {a} to {b}, from {b} to {c}, from {c} to {a}.",
        ),
        {"a": a, "b": b, "c": c},
        texts,
        {b: texts[a], c: texts[b], a: texts[c]},
        (Step(f"mv {c} {spare}"), Step(f"mv {b} {c}"), Step(f"mv {a} {b}"), Step(f"mv {spare} {a}")),
    )


def tally(draw: Draw, difficulty: str) -> Plan:
    a, b, out, word = draw.file("log"), draw.file("log"), draw.file(), draw.value()
    one, two = draw.rng.sample(range(2, 10), 2)
    before = {a: log(draw, word, one, one + 3), b: log(draw, word, two, two + 3)}
    counts = (Step(f"grep -c {word} {a}", {"n": r"(\d+)"}), Step(f"grep -c {word} {b}", {"m": r"(\d+)"}))

    def compare(known: Facts) -> Facts:
        larger = int(known["n"]) > int(known["m"])
        return {"more": a if larger else b, "less": b if larger else a}

    counts = (counts[0], Step(counts[1].command, counts[1].learn, compare))
    truth = compare({"n": str(one), "m": str(two)})
    if difficulty == "easy":
        return Plan(
            (
                "Which of {a} and {b} has more lines with {word}? Write its name to {out}.",
                "Compare {a} and {b}: write the name of the one with more lines that contain {word} to {out}.",
                "{out} must hold the name of the file, {a} or {b}, in which {word} occurs in more lines.",
                "Find out whether {a} or {b} has more lines with {word} and save that file's name in {out}.",
            ),
            {"a": a, "b": b, "out": out, "word": word},
            before,
            {out: f"{truth['more']}\n"},
            (*counts, Step(f"echo {{more}} > {out}")),
            truth,
        )
    if difficulty == "medium":
        return Plan(
            (
                "Of {a} and {b}, delete the one that has fewer lines with {word}.",
                "Compare {a} and {b}: remove the one with fewer lines that contain {word}.",
                "Only the file, {a} or {b}, with more lines that contain {word} may stay. The other must go.",
                "Find out whether {a} or {b} has fewer lines with {word} and get rid of that file.",
            ),
            {"a": a, "b": b, "word": word},
            before,
            {truth["less"]: None},
            (*counts, Step("rm {less}")),
            truth,
        )
    return Plan(
        (
            "Of {a} and {b}, rename the one that has more lines with {word} to {out} and delete the other.",
            "Compare {a} and {b}: move the one with more lines that contain {word} to {out}, remove the other one.",
            "The file, {a} or {b}, with more lines that contain {word} must take the name {out}. The other must go.",
            "Find out whether {a} or {b} has more lines with {word}. Give it the name {out} and get rid of the other.",
        ),
        {"a": a, "b": b, "out": out, "word": word},
        before,
        {a: None, b: None, out: before[truth["more"]]},
        (*counts, Step(f"mv {{more}} {out}"), Step("rm {less}")),
        truth,
    )


def relay(draw: Draw, difficulty: str) -> Plan:
    conf, source, word = draw.file("conf"), draw.file(), draw.value()
    target = f"{draw.folder()}/{draw.file()}"
    before = {conf: settings(draw, target=target), source: f"{word}\n", target: draw.lines(1, 2)}
    read = Step(f"cat {conf}", {"target": r"^target=(\S+)"})
    truth = {"target": target, "word": word}
    facts = {"conf": conf, "source": source}
    grown = before[target] + f"{word}\n"
    if difficulty == "easy":
        return Plan(
            (
                "Append the content of {source} to the file that {conf} names as target.",
                "The key target in {conf} names a file. Add the lines of {source} at its end.",
                "Read {conf} and add what {source} holds to the file given there as target.",
                "The file that the target setting of {conf} names must grow by the lines of {source}.",
            ),
            facts,
            before,
            {target: grown},
            (read, Step(f"cat {source} >> {{target}}")),
            truth,
        )
    if difficulty == "medium":
        return Plan(
            (
                "Append the content of {source} to the file that {conf} names as target, then delete {source}.",
                "The key target in {conf} names a file. Add the lines of {source} at its end and remove {source}.",
                "Read {conf}, add what {source} holds to the file given there as target, and get rid of {source}.",
                "The file that the target setting of {conf} names must grow by the lines of {source}. Then {source} must go.",
            ),
            facts,
            before,
            {target: grown, source: None},
            (read, Step(f"cat {source} >> {{target}}"), Step(f"rm {source}")),
            truth,
        )
    first = draw.file()
    before = {first: f"{conf}\n", **before}
    return Plan(
        (
            "{first} names a settings file. Append the content of {source} to the file named there as target, then delete {first} and {source}.",
            "Follow {first} to a settings file. Its key target names a file: add the lines of {source} at its end. Remove {first} and {source}.",
            "Read the settings file that {first} names, add what {source} holds to its target, and get rid of {first} and {source}.",
            "The target in the settings file that {first} names must grow by the lines of {source}. Then {first} and {source} must go.",
        ),
        {"first": first, "source": source},
        before,
        {target: grown, source: None, first: None},
        (
            Step(f"cat {first}", {"conf": r"(\S+)"}),
            Step("cat {conf}", {"target": r"^target=(\S+)"}),
            Step(f"cat {source} >> {{target}}"),
            Step(f"rm {first} {source}"),
        ),
        {**truth, "conf": conf},
    )
