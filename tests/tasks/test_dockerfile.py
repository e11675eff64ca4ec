import pytest

from strop.errors import Refusal
from strop.tasks.dockerfile import build
from strop.tasks.words import Words
from strop.tasks.workspace import File

CONTEXT = {
    path: File(path, path.encode(), mode)
    for path, mode in (
        ("/Dockerfile", 0o644),
        ("/a.txt", 0o644),
        ("/b.txt", 0o644),
        ("/run.sh", 0o755),
        ("/data/x.csv", 0o644),
        ("/data/deep/y.csv", 0o644),
        ("/with space.txt", 0o644),
    )
}


def placed(text: str) -> dict[str, str]:
    """Where each file of the context went."""
    built = build("FROM scratch\n" + text, CONTEXT, "Dockerfile")
    return {file.path: file.data.decode() for file in built.files}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("COPY a.txt /app/", {"/app/a.txt": "/a.txt"}),
        ("COPY a.txt /app/c.txt", {"/app/c.txt": "/a.txt"}),
        ("COPY a.txt /app", {"/app/a.txt": "/a.txt"}),
        ("COPY a.txt /somewhere", {"/somewhere": "/a.txt"}),
        ("WORKDIR /w\nCOPY a.txt .", {"/w/a.txt": "/a.txt"}),
        ("WORKDIR /w\nWORKDIR v\nCOPY a.txt ./c", {"/w/v/c": "/a.txt"}),
        ("WORKDIR /w\nCOPY a.txt ../c", {"/c": "/a.txt"}),
        ("COPY data /d", {"/d/x.csv": "/data/x.csv", "/d/deep/y.csv": "/data/deep/y.csv"}),
        ("COPY data/ /d/", {"/d/x.csv": "/data/x.csv", "/d/deep/y.csv": "/data/deep/y.csv"}),
        (
            "COPY *.txt /t/",
            {"/t/a.txt": "/a.txt", "/t/b.txt": "/b.txt", "/t/with space.txt": "/with space.txt"},
        ),
        ("COPY [ab].txt /t/", {"/t/a.txt": "/a.txt", "/t/b.txt": "/b.txt"}),
        ("COPY data/*.csv /t/", {"/t/x.csv": "/data/x.csv"}),
        ('COPY ["with space.txt", "/t/"]', {"/t/with space.txt": "/with space.txt"}),
        ("COPY a.txt b.txt /t/", {"/t/a.txt": "/a.txt", "/t/b.txt": "/b.txt"}),
        ("COPY a.txt /x/y\nCOPY b.txt /x", {"/x/y": "/a.txt", "/x/b.txt": "/b.txt"}),
        ("COPY a.txt /x\nCOPY b.txt /x", {"/x": "/b.txt"}),
        ("ENV D=/deep\nCOPY a.txt ${D}/c", {"/deep/c": "/a.txt"}),
        ("ARG D=/deep\nCOPY a.txt $D/c", {"/deep/c": "/a.txt"}),
        ("COPY /a.txt /t/", {"/t/a.txt": "/a.txt"}),
        ("COPY \\\n  # a comment\n  a.txt \\\n\n  /t/", {"/t/a.txt": "/a.txt"}),
        ("copy\ta.txt\t/t/", {"/t/a.txt": "/a.txt"}),
    ],
)
def test_copy_places_files_as_docker_does(text, expected):
    assert placed(text) == expected


def test_copy_of_the_whole_context():
    assert placed("WORKDIR /app\nCOPY . .") == {"/app" + path: path for path in CONTEXT}


def test_modes_survive_and_can_be_set():
    built = build("FROM x\nCOPY run.sh a.txt /t/\nCOPY --chmod=0600 b.txt /t/\n", CONTEXT, "Dockerfile")
    assert {file.path: file.mode for file in built.files} == {
        "/t/a.txt": 0o644,
        "/t/b.txt": 0o600,
        "/t/run.sh": 0o755,
    }


@pytest.mark.parametrize(
    ("text", "env"),
    [
        ("ENV A=1 B=2", {"A": "1", "B": "2"}),
        ("ENV A one two  three", {"A": "one two  three"}),
        ("ENV A=\"x y\" B='$x' C=a\\ b", {"A": "x y", "B": "$x", "C": "a b"}),
        ("ENV A=1\nENV B=${A}2 C=$A", {"A": "1", "B": "12", "C": "1"}),
        ("ENV A=${U:-d} B=${U:+e}\nENV C=${A:+e}", {"A": "d", "B": "", "C": "e"}),
        ("ENV A=1\nENV A=2 B=$A", {"A": "2", "B": "1"}),
        ("ENV A=\\$HOME B=a$ C=\\\\", {"A": "$HOME", "B": "a$", "C": "\\"}),
        ("ENV A=1\nLABEL b=2\nEXPOSE 80\nUSER root", {"A": "1"}),
        ("ENV A=1 \\\n    B=2", {"A": "1", "B": "2"}),
    ],
)
def test_variables(text, env):
    assert dict(build("FROM x\n" + text, {}, "Dockerfile").env) == env


def test_arguments_are_no_variables_of_the_agent():
    built = build("ARG V=3\nFROM python:$V\nENV W=$V\n", {}, "Dockerfile")
    assert dict(built.env) == {"W": "3"}
    assert "the image python:3" in built.notes[0]


def test_what_is_passed_over_is_noted_with_its_line():
    text = 'FROM x AS y\nLABEL a=b\n\nENTRYPOINT ["sh"]\nUSER agent\nCOPY --chown=agent:agent a.txt /t/\n'
    notes = build(text, CONTEXT, "env/Dockerfile").notes
    assert [note.split(":")[0] for note in notes] == [f"env/Dockerfile, line {n}" for n in (1, 2, 4, 5, 6)]


def test_no_workdir_is_none():
    assert build("FROM x", {}, "Dockerfile").workdir is None


@pytest.mark.parametrize(
    ("text", "what", "line", "nearest"),
    [
        ("FROM x\nRUN make", "RUN is not supported yet", 2, ""),
        ("FROM x\n# c\nADD https://x/y /z", "ADD is not supported yet", 3, ""),
        ("FROM x\nONBUILD COPY a b", "ONBUILD is not supported yet", 2, ""),
        ("FROM x\nCOPPY a b", "unknown instruction 'COPPY'", 2, "COPY"),
        ("COPY a.txt /t/", "COPY comes before FROM", 1, ""),
        ("# nothing", "no FROM", None, ""),
        ("FROM", "FROM names no image", 1, ""),
        ("FROM x AS a\nFROM y", "a second FROM", 2, ""),
        ("FROM x\nCOPY --from=a /b /c", "COPY --from=a is not supported yet", 2, ""),
        ("FROM x\nCOPY --chmod=u+x a.txt /c", "COPY --chmod=u+x is not supported yet", 2, ""),
        ("FROM x\nCOPY <<EOF /c\nhi\nEOF", "COPY of a here-document is not supported yet", 2, ""),
        ("FROM x\nCOPY https://a/b /c", "COPY of https://a/b is not supported yet", 2, ""),
        ("FROM x\nCOPY ../secret /c", "leaves environment/", 2, ""),
        ("FROM x\nCOPY data/../../secret /c", "leaves environment/", 2, ""),
        ("FROM x\nCOPY aa.txt /c", "COPY finds no files at 'aa.txt'", 2, "a.txt"),
        ("FROM x\nCOPY *.zip /c/", "COPY finds no files at '*.zip'", 2, None),
        ("FROM x\nCOPY a.txt", "COPY needs a source and a destination", 2, ""),
        ("FROM x\nCOPY a.txt b.txt /c", "not said to be a folder", 2, ""),
        ('FROM x\nCOPY ["a.txt", 3]', "COPY finds no files at '[a.txt,'", 2, None),
        ("FROM x\nENV", "ENV sets nothing", 2, ""),
        ("FROM x\nENV A=1 B", "ENV cannot read 'B'", 2, ""),
        ("FROM x\nENV A=$B", "$B is set by no ENV or ARG", 2, ""),
        ("FROM x\nENV AB=1\nENV PATH=/x:$AC", "$AC is set by no ENV or ARG", 3, "AB"),
        ("FROM x\nENV A=${B%x}", "the form ${B%x} is not supported", 2, ""),
        ("FROM x\nENV A=${B:-${C}}", "is not supported", 2, ""),
        ("FROM x\nENV A='open", "the quote ' is not closed", 2, ""),
        ("FROM x\nWORKDIR", "WORKDIR names no folder", 2, ""),
        ("# escape=`\nFROM x", "escape directive", 1, ""),
    ],
)
def test_what_cannot_be_carried_out_names_its_line(text, what, line, nearest):
    with pytest.raises(Refusal) as caught:
        build(text, CONTEXT, "Dockerfile")
    assert what in caught.value.what
    assert caught.value.where == ("Dockerfile" if line is None else f"Dockerfile, line {line}")
    assert nearest is None or caught.value.nearest == nearest


def test_words():
    words = Words({"HOME": "/root"}, "here")
    assert words.split("""a 'b c'"d" e\\ f "$HOME" '' x""") == ["a", "b cd", "e f", "/root", "", "x"]
    assert words.expand("  a b ") == "  a b "
    assert words.split('"a\\n\\"b"') == ['a\\n"b']
