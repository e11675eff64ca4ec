"""Families that cannot be solved without reading: settings, pointers and switches decide what to do."""

from strop.suites.shell.plan import Facts, Plan, Step
from strop.suites.shell.words import Draw


def settings(draw: Draw, **values: str) -> str:
    """A settings file with the given keys among others, in any order."""
    noise = {"owner": draw.person(), "color": draw.value()}
    return "".join(f"{key}={value}\n" for key, value in draw.shuffled([*values.items(), *noise.items()]))


def lookup(draw: Draw, difficulty: str) -> Plan:
    conf, word, value = draw.file("conf"), draw.value(), draw.file()
    target = f"{draw.folder()}/{draw.file()}"
    spare = f"{target.split('/')[0]}/{draw.file()}"
    before = {conf: settings(draw, target=target), spare: draw.lines(1, 2)}
    read = Step(f"cat {conf}", {"target": r"^target=(\S+)"})
    truth = {"target": target}
    if difficulty == "easy":
        return Plan(
            (
                "Write {word} to the file that {conf} names as target.",
                "The key target in {conf} names a file. Put {word} into that file.",
                "Read {conf} and create the file given there as target with the content {word}.",
                "The file that the target setting of {conf} names must hold the word {word}.",
                "Look up target in {conf} and save {word} under that name.",
            ),
            {"conf": conf, "word": word},
            before,
            {target: f"{word}\n"},
            (read, Step(f"echo {word} > {{target}}")),
            truth,
        )
    before[value] = draw.lines(1, 2)
    if difficulty == "medium":
        return Plan(
            (
                "Copy {value} to the file that {conf} names as target, then delete {conf}.",
                "The key target in {conf} names a file. Copy {value} to that name and remove {conf}.",
                "Read {conf}, make a copy of {value} under the name given there as target, and get rid of {conf}.",
                "The file that the target setting of {conf} names must become a copy of {value}. Then {conf} must go.",
            ),
            {"conf": conf, "value": value},
            before,
            {target: before[value], conf: None},
            (read, Step(f"cp {value} {{target}}"), Step(f"rm {conf}")),
            truth,
        )
    second = draw.file("conf")
    before = {
        conf: settings(draw, include=second),
        second: settings(draw, target=target, source=value),
        spare: before[spare],
        value: before[value],
    }
    return Plan(
        (
            "{conf} includes another settings file, which names a source and a target. Copy the source to the target and write {word} to {value2}.",
            "Read {conf} and the file that it includes. Copy the file named there as source to the one named as target, then put {word} into {value2}.",
            "The file included by {conf} gives source and target: make the target a copy of the source. Also save {word} in {value2}.",
            "Follow include in {conf}. Whatever source names there must be copied to what target names. Then create {value2} with {word}.",
        ),
        {"conf": conf, "word": word, "value2": (note := draw.file("md"))},
        before,
        {target: before[value], note: f"{word}\n"},
        (
            Step(f"cat {conf}", {"include": r"^include=(\S+)"}),
            Step("cat {include}", {"target": r"^target=(\S+)", "source": r"^source=(\S+)"}),
            Step("cp {source} {target}"),
            Step(f"echo {word} > {note}"),
        ),
        {**truth, "include": second, "source": value},
    )


def chain(draw: Draw, difficulty: str) -> Plan:
    hops = {"easy": 2, "medium": 3, "hard": 4}[difficulty]
    names = [draw.file() for _ in range(hops)]
    out, value = draw.file("md"), draw.value()
    before = {name: f"{follower}\n" for name, follower in zip(names, [*names[1:], value], strict=True)}
    before[draw.file()] = f"{draw.value()}\n"
    steps = [Step(f"cat {names[0]}", {"next1": r"(\S+)"})]
    steps += [Step(f"cat {{next{hop}}}", {f"next{hop + 1}": r"(\S+)"}) for hop in range(1, hops)]
    steps.append(Step(f"echo {{next{hops}}} > {out}"))
    truth = {f"next{hop}": name for hop, name in enumerate([*names[1:], value], start=1)}
    facts = {"a": names[0], "out": out, "old": names[-1]}
    after: dict[str, str | None] = {out: f"{value}\n"}
    if difficulty != "hard":
        return Plan(
            (
                "{a} holds the name of a file, which may name another one, and so on. Write the word at the end to {out}.",
                "Follow the file names from {a} on until a word is left, and write that word to {out}.",
                "Start at {a}: each file names the next, the last one holds a word. Put the word into {out}.",
                "{out} must hold the word at which you arrive when you follow the names that begin in {a}.",
            ),
            facts,
            before,
            after,
            tuple(steps),
            truth,
        )
    return Plan(
        (
            "{a} holds the name of a file, which may name another one, and so on. Write the word at the end to {out} and delete the file that held it.",
            "Follow the file names from {a} on until a word is left. Write that word to {out}, then remove the file in which it was.",
            "Start at {a}: each file names the next, the last one holds a word. Put the word into {out} and get rid of that last file.",
            "{out} must hold the word at which you arrive when you follow the names that begin in {a}. The file with the word must go.",
        ),
        facts,
        before,
        {**after, names[-1]: None},
        (*steps, Step(f"rm {{next{hops - 1}}}")),
        truth,
    )


def branch(draw: Draw, difficulty: str) -> Plan:
    flag, a, b = draw.file("conf"), draw.file(), draw.file()
    before = {a: draw.lines(1, 2), flag: ""}
    on = draw.rng.random() < 0.5
    read = f"cat {flag}"
    if difficulty == "easy":
        one, two = draw.value(), draw.value()
        before[flag] = f"mode={'on' if on else 'off'}\n"

        def choose(known: Facts) -> Facts:
            return {"word": one if known["mode"] == "on" else two}

        return Plan(
            (
                "If {flag} says mode=on, write {one} to {b}, else write {two} to {b}.",
                "Look at the mode in {flag}. When it is on, put {one} into {b}. When it is off, put {two} into {b}.",
                "{b} must hold {one} if the mode in {flag} is on and {two} if it is off.",
                "Read {flag}. Mode on means that {b} gets {one}, mode off that it gets {two}.",
            ),
            {"flag": flag, "b": b, "one": one, "two": two},
            before,
            {b: f"{one if on else two}\n"},
            (Step(read, {"mode": r"^mode=(\S+)"}, choose), Step(f"echo {{word}} > {b}")),
            choose({"mode": "on" if on else "off"}),
        )
    action = draw.rng.choice(("copy", "move", "remove"))
    acts = {"copy": f"cp {a} {b}", "move": f"mv {a} {b}", "remove": f"rm {a}"}
    outcomes: dict[str, dict[str, str | None]] = {
        "copy": {b: before[a]},
        "move": {b: before[a], a: None},
        "remove": {a: None},
    }
    moved = outcomes[action]
    learn = {"action": r"^action=(\S+)"}

    def act(known: Facts) -> Facts:
        return {"act": acts.get(known["action"], "true")}

    if difficulty == "medium":
        before[flag] = f"action={action}\n"
        return Plan(
            (
                "Do what {flag} says with {a}: copy it to {b}, move it to {b}, or remove it.",
                "The action in {flag} is copy, move or remove. Apply it to {a}, with {b} as the new name.",
                "Read {flag}. For copy or move the file {a} goes to {b}, for remove it is deleted.",
                "{flag} decides whether {a} is copied to {b}, moved to {b} or removed. Act on it.",
            ),
            {"flag": flag, "a": a, "b": b},
            before,
            moved,
            (Step(read, learn, act), Step("{act}")),
            {"act": acts[action]},
        )
    word, note, other = draw.value(), draw.file("md"), draw.file("conf")
    before[flag], before[other] = f"action={action}\n", f"write={'yes' if on else 'no'}\n"

    def last(known: Facts) -> Facts:
        return {"last": f"echo {word} > {note}" if known["write"] == "yes" else f"rm {other}"}

    ending: dict[str, str | None] = {note: f"{word}\n"} if on else {other: None}
    return Plan(
        (
            "Do what {flag} says with {a}: copy it to {b}, move it to {b}, or remove it. Then, if {other} says write=yes, write {word} to {note}, else delete {other}.",
            "Apply the action in {flag} to {a}, with {b} as the new name. After that look at {other}: for yes put {word} into {note}, for no remove {other}.",
            "{flag} decides whether {a} is copied to {b}, moved to {b} or removed. {other} decides whether {note} gets the word {word}, or {other} must go.",
            "Read {flag} and {other}. The first says what to do with {a}, whose new name is {b}. If the second says yes, save {word} in {note}, if no, get rid of {other}.",
        ),
        {"flag": flag, "a": a, "b": b, "other": other, "word": word, "note": note},
        before,
        {**moved, **ending},
        (
            Step(read, learn, act),
            Step("{act}"),
            Step(f"cat {other}", {"write": r"^write=(\S+)"}, last),
            Step("{last}"),
        ),
        {"act": acts[action], **last({"write": "yes" if on else "no"})},
    )
