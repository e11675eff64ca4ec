"""Families about what files hold: lines counted, replaced, taken out, sorted and joined."""

from strop.suites.shell.plan import Facts, Plan, Step
from strop.suites.shell.words import Draw


def log(draw: Draw, word: str, hits: int, lines: int) -> str:
    """A log of `lines` lines, `hits` of which begin with `word`."""
    others = [draw.value() for _ in range(3)]
    kinds = [word] * hits + [draw.rng.choice(others) for _ in range(lines - hits)]
    draw.rng.shuffle(kinds)
    return "".join(f"{kind} {draw.rng.choice(others)}\n" for kind in kinds)


def count(draw: Draw, difficulty: str) -> Plan:
    a, b, out, more, word = draw.file("log"), draw.file("log"), draw.file(), draw.file(), draw.value()
    hits = draw.rng.randint(2, 9)
    before = {a: log(draw, word, hits, hits + draw.rng.randint(2, 5))}
    if difficulty == "easy":
        return Plan(
            (
                "Count the lines of {a} that contain {word} and write the number to {out}.",
                "How many lines of {a} contain {word}? Write the number to {out}.",
                "Write to {out} how many lines with {word} there are in {a}.",
                "{out} must hold the number of lines of {a} in which {word} occurs.",
                "Save in {out} how often {word} occurs in {a}, counted in lines.",
            ),
            {"a": a, "out": out, "word": word},
            before,
            {out: f"{hits}\n"},
            (Step(f"grep -c {word} {a} > {out}"),),
        )
    if difficulty == "medium":
        other = draw.rng.randint(2, 9)
        before[b] = log(draw, word, other, other + draw.rng.randint(2, 5))
        return Plan(
            (
                "Count the lines with {word} in {a} and in {b}. Write the first number to {out}, the second to {more}.",
                "How many lines of {a} contain {word}? Write the number to {out}. Do the same for {b} and {more}.",
                "{out} must hold the number of lines of {a} with {word}, and {more} the number for {b}.",
                "Save in {out} how many lines with {word} there are in {a}, and in {more} how many in {b}.",
            ),
            {"a": a, "b": b, "out": out, "more": more, "word": word},
            before,
            {out: f"{hits}\n", more: f"{other}\n"},
            (Step(f"grep -c {word} {a} > {out}"), Step(f"grep -c {word} {b} > {more}")),
        )
    folder = draw.folder()
    full = hits > 5

    def decide(known: Facts) -> Facts:
        many = int(known["n"]) > 5
        return {"level": "high" if many else "low", "act": f"rm {a}" if many else f"mv {a} {folder}"}

    moved: dict[str, str | None] = {a: None} if full else {a: None, f"{folder}/{a}": before[a]}
    return Plan(
        (
            "Count the lines of {a} that contain {word}. If there are more than 5, write high to {out} and delete {a}. Else write low to {out} and move {a} into the folder {folder}.",
            "Are there more than 5 lines with {word} in {a}? If so, write high to {out} and remove {a}. If not, write low to {out} and move {a} into {folder}.",
            "If {a} has more than 5 lines with {word}, {out} must say high and {a} must go. Otherwise {out} must say low and {a} belongs in the folder {folder}.",
            "See how many lines of {a} contain {word}. Up to 5: put low into {out} and move {a} into {folder}. More: put high into {out} and get rid of {a}.",
        ),
        {"a": a, "out": out, "word": word, "folder": folder},
        {**before, f"{folder}/{draw.file()}": draw.lines(1, 2)},
        {**moved, out: "high\n" if full else "low\n"},
        (
            Step(f"grep -c {word} {a}", {"n": r"(\d+)"}, decide),
            Step(f"echo {{level}} > {out}"),
            Step("{act}"),
        ),
        decide({"n": str(hits)}),
    )


def replace(draw: Draw, difficulty: str) -> Plan:
    a, b, old, new = draw.file(), draw.file(), draw.value(), draw.value()

    def page(word: str, around: list[str]) -> str:
        return "".join(f"{line}\n" for line in (around[0], word, around[1], f"{word} {around[2]}"))

    arounds = [[draw.value() for _ in range(3)] for _ in range(2)]
    before = {a: page(old, arounds[0]), draw.file(): draw.lines(1, 2)}
    after = {a: page(new, arounds[0])}
    if difficulty == "easy":
        return Plan(
            (
                "Replace the word {old} by {new} in the file {a}.",
                "Change {old} to {new} everywhere in {a}.",
                "In {a} every {old} must become {new}.",
                "The file {a} says {old} where it should say {new}. Correct it.",
                "Substitute {new} for {old} in {a}.",
            ),
            {"a": a, "old": old, "new": new},
            before,
            after,
            (Step(f"sed -i s/{old}/{new}/g {a}"),),
        )
    before[b], after[b] = page(old, arounds[1]), page(new, arounds[1])
    if difficulty == "medium":
        return Plan(
            (
                "Replace the word {old} by {new} in the files {a} and {b}.",
                "Change {old} to {new} everywhere in {a} and in {b}.",
                "In {a} and {b} every {old} must become {new}.",
                "The files {a} and {b} say {old} where they should say {new}. Correct both.",
            ),
            {"a": a, "b": b, "old": old, "new": new},
            before,
            after,
            (Step(f"sed -i s/{old}/{new}/g {a}"), Step(f"sed -i s/{old}/{new}/g {b}")),
        )
    key = draw.file("conf")
    before[key] = f"new={new}\n"
    return Plan(
        (
            "Replace the word {old} in {a} and {b} by the word that {key} gives after new=, then delete {key}.",
            "The file {key} names a new word. Put it in place of {old} in {a} and in {b}, then remove {key}.",
            "In {a} and {b} every {old} must become the word that {key} names. After that {key} must go.",
            "Read the new word from {key}, change {old} to it in {a} and {b}, and get rid of {key}.",
        ),
        {"a": a, "b": b, "old": old, "key": key},
        before,
        {**after, key: None},
        (
            Step(f"cat {key}", {"new": r"new=(\S+)"}),
            Step(f"sed -i s/{old}/{{new}}/g {a}"),
            Step(f"sed -i s/{old}/{{new}}/g {b}"),
            Step(f"rm {key}"),
        ),
        {"new": new},
    )


def extract(draw: Draw, difficulty: str) -> Plan:
    a, out, folder = draw.file("csv"), draw.file(), draw.folder()
    rows = [(draw.person(), draw.value(), draw.file()) for _ in range(draw.rng.randint(4, 6))]
    person, value, home = draw.rng.choice(rows)
    table = "".join(f"{','.join(row)}\n" for row in rows)
    before = {a: table, draw.file(): draw.lines(1, 2)}
    if difficulty == "easy":
        return Plan(
            (
                "Write the line of {a} that begins with {person} to {out}.",
                "Take the line of {person} out of {a} and save it in {out}, leaving {a} as it is.",
                "{out} must hold the line of {a} in which {person} occurs.",
                "Save the row for {person} in {a} to the file {out}.",
            ),
            {"a": a, "out": out, "person": person},
            before,
            {out: f"{person},{value},{home}\n"},
            (Step(f"grep {person} {a} > {out}"),),
        )
    if difficulty == "medium":
        return Plan(
            (
                "The second column of {a} gives each person's word. Write the word of {person} to {out}.",
                "Look {person} up in {a} and write the word in the second column to {out}.",
                "{out} must hold the word that {a} gives for {person} in its second column.",
                "What does the second column of {a} say for {person}? Save it in {out}.",
            ),
            {"a": a, "out": out, "person": person},
            before,
            {out: f"{value}\n"},
            (Step(f"grep {person} {a}", {"word": r",(\w+),"}), Step(f"echo {{word}} > {out}")),
            {"word": value},
        )
    return Plan(
        (
            "In {a} each person has a word and a file name. Write the word of {person} to that file in a new folder {folder}, and remove {a}.",
            "Look {person} up in {a}. Make the folder {folder}, write the person's word there to the file named in the row, then delete {a}.",
            "The row for {person} in {a} holds a word and a file name. That file must hold the word, in a new folder {folder}. Then {a} must go.",
            "Make the folder {folder}. In it create the file that {a} names for {person}, with the word given there. Get rid of {a}.",
        ),
        {"a": a, "person": person, "folder": folder},
        before,
        {f"{folder}/{home}": f"{value}\n", a: None},
        (
            Step(f"grep {person} {a}", {"word": r",(\w+),", "home": r"([\w.]+)$"}),
            Step(f"mkdir {folder}"),
            Step(f"echo {{word}} > {folder}/{{home}}"),
            Step(f"rm {a}"),
        ),
        {"word": value, "home": home},
    )


def order(draw: Draw, difficulty: str) -> Plan:
    a, out, first = draw.file(), draw.file(), draw.file()
    words = [draw.value() for _ in range(draw.rng.randint(4, 6))]
    before = {a: "".join(f"{word}\n" for word in words), draw.file(): draw.lines(1, 2)}
    ranked = "".join(f"{word}\n" for word in sorted(words))
    if difficulty == "easy":
        return Plan(
            (
                "Sort the lines of {a} and write them to {out}.",
                "Write the lines of {a} to {out} in alphabetical order.",
                "{out} must hold the lines of {a}, sorted.",
                "Put a sorted version of {a} into {out}.",
            ),
            {"a": a, "out": out},
            before,
            {out: ranked},
            (Step(f"sort {a} > {out}"),),
        )
    if difficulty == "medium":
        return Plan(
            (
                "Sort the lines of {a} into {out} and delete {a}.",
                "Write the lines of {a} to {out} in alphabetical order, then remove {a}.",
                "{out} must hold the lines of {a}, sorted, and {a} must go.",
                "Put a sorted version of {a} into {out} and get rid of {a}.",
            ),
            {"a": a, "out": out},
            before,
            {out: ranked, a: None},
            (Step(f"sort {a} > {out}"), Step(f"rm {a}")),
        )
    return Plan(
        (
            "Sort the lines of {a} into {out}. Write the first of the sorted words to {first}, and delete {a}.",
            "Write the lines of {a} to {out} in alphabetical order. The word that comes first belongs in {first}. Then remove {a}.",
            "{out} must hold the lines of {a}, sorted, and {first} only the first word of them. After that {a} must go.",
            "Put a sorted version of {a} into {out} and its first word into {first}, then get rid of {a}.",
        ),
        {"a": a, "out": out, "first": first},
        before,
        {out: ranked, first: f"{min(words)}\n", a: None},
        (
            Step(f"sort {a} > {out}"),
            Step(f"head -n 1 {out}", {"word": r"(\S+)"}),
            Step(f"echo {{word}} > {first}"),
            Step(f"rm {a}"),
        ),
        {"word": min(words)},
    )


def merge(draw: Draw, difficulty: str) -> Plan:
    parts = [draw.file() for _ in range(3)]
    out, title, listing = draw.file(), draw.value(), f"{draw.stem()}.list"
    before = {part: draw.lines(1, 2) for part in parts}
    a, b = parts[:2]
    if difficulty == "easy":
        return Plan(
            (
                "Join {a} and {b}, in this order, into {out}.",
                "Write the content of {a} followed by that of {b} to {out}.",
                "{out} must hold the lines of {a} and then the lines of {b}.",
                "Put {a} and {b} together in one file {out}, {a} first.",
            ),
            {"a": a, "b": b, "out": out},
            before,
            {out: before[a] + before[b]},
            (Step(f"cat {a} {b} > {out}"),),
        )
    x, y, z = ranked = draw.shuffled(parts)
    before[listing] = f"{x}\n{y}\n{z}\n"
    read = Step(f"cat {listing}", {"x": r"\A(\S+)", "y": r"\A\S+\n(\S+)", "z": r"\A\S+\n\S+\n(\S+)"})
    joined = "".join(before[part] for part in ranked)
    truth = {"x": x, "y": y, "z": z}
    if difficulty == "medium":
        return Plan(
            (
                "Join the three files that {listing} names, in its order, into {out}.",
                "The file {listing} lists three files. Write their contents to {out} in that order.",
                "{out} must hold the contents of the files that {listing} names, in the same order.",
                "Read {listing} and put the files that it names together in {out}, first to last.",
            ),
            {"listing": listing, "out": out},
            before,
            {out: joined},
            (read, Step(f"cat {{x}} {{y}} {{z}} > {out}")),
            truth,
        )
    return Plan(
        (
            "Write {title} to {out}. Then add the contents of the three files that {listing} names, in its order, and delete the three files.",
            "Begin {out} with the line {title}. Append the files listed in {listing} in that order, then remove these files.",
            "{out} must hold the line {title} and then the contents of the files that {listing} names. The files themselves must go.",
            "Put {title} into {out}, add the files that {listing} names, first to last, and get rid of them.",
        ),
        {"listing": listing, "out": out, "title": title},
        before,
        {out: f"{title}\n{joined}", **dict.fromkeys(parts)},
        (
            read,
            Step(f"echo {title} > {out}"),
            Step(f"cat {{x}} {{y}} {{z}} >> {out}"),
            Step("rm {x} {y} {z}"),
        ),
        truth,
    )
