"""Families about where things are: files made, copied, moved, removed, found, and who may run them."""

from strop.suites.shell.plan import Plan, Step
from strop.suites.shell.words import Draw


def create(draw: Draw, difficulty: str) -> Plan:
    a, b, value, other = draw.file(), draw.file(), draw.value(), draw.value()
    kept = {draw.file(): draw.lines(1, 3)}
    if difficulty == "easy":
        return Plan(
            (
                "Write the word {value} to the file {a}.",
                "Create the file {a} with the content {value}.",
                "Put {value} into a new file named {a}.",
                "The file {a} must hold one line: {value}.",
                "I need a file {a} that says {value}.",
                "Make a file called {a} which contains {value}.",
            ),
            {"a": a, "value": value},
            kept,
            {a: f"{value}\n"},
            (Step(f"echo {value} > {a}"),),
        )
    if difficulty == "medium":
        return Plan(
            (
                "Write {value} to the file {a} and {other} to the file {b}.",
                "Create two files: {a} with the content {value}, {b} with the content {other}.",
                "Put {value} into {a}, then put {other} into {b}.",
                "The file {a} must hold {value} and the file {b} must hold {other}.",
                "I need {a} to say {value} and {b} to say {other}.",
            ),
            {"a": a, "b": b, "value": value, "other": other},
            kept,
            {a: f"{value}\n", b: f"{other}\n"},
            (Step(f"echo {value} > {a}"), Step(f"echo {other} > {b}")),
        )
    folder, third = draw.folder(), draw.value()
    return Plan(
        (
            "Make the folder {folder}. In it write {value} to {a} and {other} to {b}, then add the line {third} to {a}.",
            "Create a folder named {folder} with two files: {a} with the lines {value} and {third}, {b} with {other}.",
            "In a new folder {folder} put {value} into {a} and {other} into {b}. Then append {third} to {a}.",
            "The new folder {folder} must hold {a} with the lines {value} and {third}, and {b} with the line {other}.",
        ),
        {"folder": folder, "a": a, "b": b, "value": value, "other": other, "third": third},
        kept,
        {f"{folder}/{a}": f"{value}\n{third}\n", f"{folder}/{b}": f"{other}\n"},
        (
            Step(f"mkdir {folder}"),
            Step(f"echo {value} > {folder}/{a}"),
            Step(f"echo {other} > {folder}/{b}"),
            Step(f"echo {third} >> {folder}/{a}"),
        ),
    )


def copy(draw: Draw, difficulty: str) -> Plan:
    a, b, c, folder = draw.file(), draw.file(), draw.file(), draw.folder()
    text, more = draw.lines(1, 3), draw.lines(1, 3)
    kept = {a: text, b: more, draw.file("md"): draw.lines(1, 2)}
    if difficulty == "easy":
        return Plan(
            (
                "Copy the file {a} to {c}.",
                "Make a copy of {a} named {c}.",
                "Duplicate {a} as {c}.",
                "There must be a second file {c} equal to {a}.",
                "I want the content of {a} in {c} as well.",
            ),
            {"a": a, "c": c},
            kept,
            {c: text},
            (Step(f"cp {a} {c}"),),
        )
    if difficulty == "medium":
        return Plan(
            (
                "Make the folder {folder} and copy {a} into it.",
                "Create the folder {folder} and put a copy of {a} there.",
                "Copy the file {a} into a new folder {folder}.",
                "The new folder {folder} must hold a copy of {a}.",
                "I want a copy of {a} in a folder {folder}, which does not exist yet.",
            ),
            {"a": a, "folder": folder},
            kept,
            {f"{folder}/{a}": text},
            (Step(f"mkdir {folder}"), Step(f"cp {a} {folder}")),
        )
    return Plan(
        (
            "Make the folder {folder}, copy {a} and {b} into it, and rename the copy of {b} to {c}.",
            "Create the folder {folder} with a copy of {a} and a copy of {b}, the latter named {c}.",
            "Copy {a} and {b} into a new folder {folder}. The copy of {b} must be named {c}.",
            "The new folder {folder} must hold {a} as it is and {b} under the name {c}. Keep the originals.",
        ),
        {"a": a, "b": b, "c": c, "folder": folder},
        kept,
        {f"{folder}/{a}": text, f"{folder}/{c}": more},
        (Step(f"mkdir {folder}"), Step(f"cp {a} {folder}"), Step(f"cp {b} {folder}/{c}")),
    )


def rename(draw: Draw, difficulty: str) -> Plan:
    a, b, c, folder = draw.file(), draw.file(), draw.file(), draw.folder()
    text, more = draw.lines(1, 3), draw.lines(1, 3)
    before = {a: text, b: more, draw.file("log"): draw.lines(1, 3)}
    if difficulty == "easy":
        return Plan(
            (
                "Rename the file {a} to {c}.",
                "Move {a} to {c}.",
                "Give the file {a} the new name {c}.",
                "The file {a} should be called {c}.",
                "Change the name of {a} to {c}.",
            ),
            {"a": a, "c": c},
            before,
            {a: None, c: text},
            (Step(f"mv {a} {c}"),),
        )
    if difficulty == "medium":
        return Plan(
            (
                "Make the folder {folder} and move {a} and {b} into it.",
                "Create the folder {folder}, then move the files {a} and {b} there.",
                "Move {a} and {b} into a new folder {folder}.",
                "The files {a} and {b} belong in a folder {folder}, which does not exist yet.",
                "Put the files {a} and {b} away in a new folder named {folder}.",
            ),
            {"a": a, "b": b, "folder": folder},
            before,
            {a: None, b: None, f"{folder}/{a}": text, f"{folder}/{b}": more},
            (Step(f"mkdir {folder}"), Step(f"mv {a} {b} {folder}")),
        )
    note, value = draw.file("md"), draw.value()
    return Plan(
        (
            "Rename {b} to {c}, then rename {a} to {b}, and write {value} to {note}.",
            "Move {b} to {c} and after that {a} to {b}. Then write the word {value} to the file {note}.",
            "{a} must take the name {b}, but first save the old {b} as {c}. Also put {value} into {note}.",
            "Keep {b} under the name {c}, give its name to {a}, and create {note} with the content {value}.",
        ),
        {"a": a, "b": b, "c": c, "note": note, "value": value},
        before,
        {a: None, b: text, c: more, note: f"{value}\n"},
        (Step(f"mv {b} {c}"), Step(f"mv {a} {b}"), Step(f"echo {value} > {note}")),
    )


def remove(draw: Draw, difficulty: str) -> Plan:
    names = [draw.file(ext) for ext in ("txt", "log", "csv", "txt", "md")]
    before = {name: draw.lines(1, 2) for name in names}
    a, b, c = names[:3]
    if difficulty == "easy":
        return Plan(
            (
                "Delete the file {a}.",
                "Remove {a}.",
                "The file {a} must go.",
                "Get rid of {a}.",
                "We no longer need {a}, so delete it.",
            ),
            {"a": a},
            before,
            {a: None},
            (Step(f"rm {a}"),),
        )
    if difficulty == "medium":
        folder = draw.folder()
        inside = f"{folder}/{draw.file()}"
        return Plan(
            (
                "Delete the file {a} and the folder {folder}.",
                "Remove {a} and the whole folder {folder}.",
                "The file {a} and the folder {folder} with all it holds must go.",
                "Get rid of the folder {folder} and of the file {a}.",
            ),
            {"a": a, "folder": folder},
            {**before, inside: draw.lines(1, 2)},
            {a: None, inside: None},
            (Step(f"rm {a}"), Step(f"rm -r {folder}")),
        )
    stale = f"{draw.stem()}.list"
    doomed = draw.shuffled([a, b, c])
    gone = dict.fromkeys(doomed)
    return Plan(
        (
            "Delete every file that {stale} names, one name a line. Keep {stale}.",
            "The file {stale} lists files. Remove all of them, but not {stale} itself.",
            "Read {stale} and delete the files whose names it holds.",
            "Each line of {stale} is the name of a file that must go.",
        ),
        {"stale": stale},
        {**before, stale: "".join(f"{name}\n" for name in doomed)},
        gone,
        (
            Step(f"cat {stale}", {"x": r"\A(\S+)", "y": r"\A\S+\n(\S+)", "z": r"\A\S+\n\S+\n(\S+)"}),
            Step("rm {x}"),
            Step("rm {y}"),
            Step("rm {z}"),
        ),
        dict(zip("xyz", doomed, strict=True)),
    )


def permit(draw: Draw, difficulty: str) -> Plan:
    a, b, value, out = draw.file("sh"), draw.file("sh"), draw.value(), draw.file()
    before = {a: f"echo {value}\n", b: f"echo {draw.value()}\n", draw.file(): draw.lines(1, 2)}
    if difficulty == "easy":
        return Plan(
            (
                "Make the script {a} executable.",
                "The script {a} must be executable.",
                "Allow {a} to be run as a program.",
                "Set the execute permission on {a}.",
            ),
            {"a": a},
            before,
            {},
            (Step(f"chmod +x {a}"),),
            executable=(a,),
        )
    if difficulty == "medium":
        return Plan(
            (
                "Run the script {a} and save what it prints in {out}.",
                "Run {a} with sh and write its output to {out}.",
                "Save the output of the script {a} in the file {out}.",
                "{out} must hold what the script {a} prints.",
            ),
            {"a": a, "out": out},
            before,
            {out: f"{value}\n"},
            (Step(f"sh {a} > {out}"),),
        )
    return Plan(
        (
            "Run the script {a}. It prints a word: write that word to {out}, then make {b} executable.",
            "The script {a} prints a word. Put the word into {out}, and set the execute permission on {b}.",
            "{out} must hold the word that {a} prints, and the script {b} must be executable.",
            "Find out what {a} prints, save it in {out}, and allow {b} to be run as a program.",
        ),
        {"a": a, "b": b, "out": out},
        before,
        {out: f"{value}\n"},
        (Step(f"sh {a}", {"word": r"(\S+)"}), Step(f"echo {{word}} > {out}"), Step(f"chmod +x {b}")),
        {"word": value},
        executable=(b,),
    )


def find(draw: Draw, difficulty: str) -> Plan:
    a, out, value = draw.file(), draw.file(), draw.value()
    folders = [draw.folder() for _ in range(3)]
    home = draw.rng.choice(folders)
    before = {f"{folder}/{draw.file()}": draw.lines(1, 2) for folder in folders}
    before[f"{home}/{a}"] = f"{value}\n"
    look = Step(f"find . -name {a}", {"path": r"\./(\S+)"})
    truth = {"path": f"{home}/{a}"}
    if difficulty == "easy":
        return Plan(
            (
                "Find the file {a} in the folders below and copy it to {out}.",
                "Somewhere in the folders lies {a}. Copy it to {out}.",
                "Look for {a}, which is in one of the folders, and make a copy named {out}.",
                "The file {a} is hidden in a folder. I want a copy of it as {out}.",
            ),
            {"a": a, "out": out},
            before,
            {out: f"{value}\n"},
            (look, Step(f"cp {{path}} {out}")),
            truth,
        )
    if difficulty == "medium":
        return Plan(
            (
                "Find the file {a} in the folders below and delete it. Write done to {out}.",
                "Somewhere in the folders lies {a}. Remove it, then write the word done to {out}.",
                "Look for {a}, which is in one of the folders, and get rid of it. Then put done into {out}.",
                "The file {a}, hidden in a folder, must go, and {out} must hold the word done.",
            ),
            {"a": a, "out": out},
            before,
            {f"{home}/{a}": None, out: "done\n"},
            (look, Step("rm {path}"), Step(f"echo done > {out}")),
            truth,
        )
    target = draw.folder()
    return Plan(
        (
            "Find the file {a} in the folders below, move it into a new folder {target}, and write its word to {out}.",
            "Somewhere in the folders lies {a} with one word in it. Write the word to {out} and move {a} into a new folder {target}.",
            "Look for {a}. Put the word that it holds into {out}, make the folder {target}, and move {a} there.",
            "The file {a}, hidden in a folder, belongs in a new folder {target}. The word in it belongs in {out} as well.",
        ),
        {"a": a, "target": target, "out": out},
        before,
        {f"{home}/{a}": None, f"{target}/{a}": f"{value}\n", out: f"{value}\n"},
        (
            look,
            Step("cat {path}", {"word": r"(\S+)"}),
            Step(f"echo {{word}} > {out}"),
            Step(f"mkdir {target}"),
            Step(f"mv {{path}} {target}"),
        ),
        {**truth, "word": value},
    )
