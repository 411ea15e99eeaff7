"""Attacks on the grader, on the CPU: each gets its expected verdict; an honest kernel graded next has full marks."""

import contextlib
import gzip
import importlib.util
import io
import subprocess
import sys
import tarfile
import tempfile
import warnings
import zipfile
from pathlib import Path

import pytest
from attacks.verdicts import ATTACKS, check, judged, on_cpu
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import drawn, examples

from fashion_infer.grading import grade, rubric, verdict
from fashion_infer.grading.intake import archives, reading, submission
from fashion_infer.grading.sandbox import available, layers
from fashion_infer.kernel_files import formats
from fashion_infer.system import compilers

TORCH = importlib.util.find_spec("torch") is not None
FILES = [path for path in on_cpu().values() if path.suffix == ".cpp" or TORCH]
HONEST = Path(grade.__file__).parents[1] / "kernel_files" / "templates" / "conv.cpp"
NEEDS = pytest.mark.skipif(
    not available().isolated or compilers.find_cxx() is None, reason="no sandbox, or no compiler"
)


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield rubric.read(str(ATTACKS / "rubric.toml"))


@pytest.fixture
def room(tmp_path):
    (tmp_path / "room").mkdir()
    return tmp_path / "room"


@NEEDS
@pytest.mark.parametrize("path", drawn(FILES, 2), ids=lambda path: path.stem)
def test_an_attack_gets_its_verdict_and_the_grader_still_works(path, asked):
    # The honest kernel has a long time limit, because tests share their cores, and coarse times, which take less time.
    patient = asked._replace(limits=asked.limits._replace(seconds=30.0), timing=asked.timing._replace(spread=0.2))
    # So has a file in Python, which first imports PyTorch.
    (attacked,), (honest,) = judged(patient if path.suffix == ".py" else asked, path), judged(patient, HONEST)
    check(path, attacked)
    # On busy cores a worker may wake up so late that the clocks disagree. That finding costs no points.
    found = [finding for finding in honest.findings if finding.code != "clocks"]
    assert (honest.marks.points, found, honest.ranked) == (100, [], True)
    assert attacked.sandbox["in_force"].get("seccomp", True) and attacked.sandbox["available"] == available().words


@NEEDS
def test_a_full_channel_does_not_block_the_grader(asked):
    check = next(one for one in asked.checks if one.kind == "time")._replace(n=(1,))
    many = asked._replace(checks=(check,), timing=asked.timing._replace(calls=400, seconds=30.0))
    (attacked,) = judged(many, on_cpu()["never-reads.cpp"])
    assert attacked.findings[0].code in ("closed_channel", "ran_while_stopped") and not attacked.ranked


@NEEDS
def test_what_is_checked_as_float32_is_timed_as_float32(asked):
    (attacked,) = judged(asked._replace(precision="half"), on_cpu()["rounds-when-timed.cpp"])
    assert [one.code for one in attacked.findings] == ["less_precise"] and not attacked.ranked


LINES = {
    "blank": b"\n" * 1_000_000,
    "characters": b"#if 0\n" + b"'/*'," * 500_000 + b"\n#endif\n",
    "zero byte": b'#if 0\n#include "a\0b/gpu-new-forward.h"\n#endif\n',
    "long name": f'#if 0\n#include "{70 * chr(0x1F600)}/gpu-new-forward.h"\n#endif\n'.encode(),
}


@NEEDS
@pytest.mark.parametrize("name", LINES)
def test_odd_lines_are_read(name, tmp_path):
    (tmp_path / "conv.cpp").write_bytes(LINES[name] + CODE)
    words = "grade", "conv.cpp", "--rubric", ATTACKS / "rubric.toml", "--out", "out", "--require", "right", "--once"
    command = [sys.executable, "-m", "fashion_infer", *map(str, words)]
    subprocess.run(command, cwd=tmp_path, timeout=120, check=True)  # a pattern that takes days keeps Python's lock


WITHOUT = {"bubblewrap": {"bubblewrap": None, "refusal": "a test"}, "Landlock": {"landlock": 0}}


@NEEDS
@pytest.mark.skipif(not (available().landlock and available().seccomp), reason="no Landlock, or no seccomp")
@pytest.mark.parametrize(
    "path", [HONEST, *drawn([path for path in FILES if path.suffix == ".cpp"], 1)], ids=lambda path: path.stem
)
@pytest.mark.parametrize("layer", WITHOUT)
def test_without_a_layer_the_others_protect_and_nothing_is_ranked(path, layer, asked, monkeypatch):
    found = available()._replace(**WITHOUT[layer])
    monkeypatch.setattr(layers, "available", lambda: found)
    (judgement,) = judged(asked, path)
    if path == HONEST:
        assert judgement.marks.points == 100 and not judgement.ranked, judgement.findings
        assert [layer in why for why in judgement.sandbox["lacking"]] == [True]
    elif (layer, path.stem) == ("Landlock", "attempts"):  # root's own files and the box's first process are in reach
        assert not judgement.ranked
    else:
        check(path, judgement, ranked=False)


def test_without_a_sandbox_grading_needs_unsandboxed(asked, monkeypatch):
    nothing = available()._replace(bubblewrap=None, refusal="a test", landlock=0, seccomp=False)
    monkeypatch.setattr(layers, "available", lambda: nothing)
    with pytest.raises(Exception, match="no sandbox on this machine.*--unsandboxed") as raised:
        judged(asked, HONEST)
    assert raised.value.exit_code == 4
    (verdict,) = judged(asked, HONEST, unsandboxed=True)
    assert verdict.marks.points == 100 and not verdict.ranked
    assert verdict.sandbox["in_force"]["landlock"] == 0 and not verdict.sandbox["in_force"]["seccomp"]


PLAIN, MODES = tarfile.REGTYPE, {tarfile.REGTYPE: 0o100644, tarfile.SYMTYPE: 0o120777}


def packed(path, *entries):
    """Write entries (name, type in tar, content or target of the link) to a zip or tar archive; return its path."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, kind, content in entries:
                info = zipfile.ZipInfo(name)
                info.external_attr, info.compress_type = MODES[kind] << 16, zipfile.ZIP_DEFLATED
                archive.writestr(info, content)
        return path
    with tarfile.open(path, "w:gz") as archive:
        for name, kind, content in entries:
            info = tarfile.TarInfo(name)
            info.type, info.size = kind, len(content) if kind == PLAIN else 0
            info.linkname = content if kind != PLAIN else ""
            archive.addfile(info, io.BytesIO(content) if kind == PLAIN else None)
    return path


CODE = HONEST.read_bytes()
FILE = ("conv.cpp", PLAIN, CODE)
UNSAFE = {
    "absolute": [("/tmp/conv.cpp", PLAIN, CODE)],
    "up": [FILE, ("a/../../conv.h", PLAIN, b"")],
    "up by backslash": [("..\\conv.cpp", PLAIN, CODE)],
    "symlink": [("conv.cpp", tarfile.SYMTYPE, "/etc/passwd")],
    "symlinked folder": [("a", tarfile.SYMTYPE, "/tmp"), ("a/conv.cpp", PLAIN, CODE)],
    "hard link": [("conv.cpp", tarfile.LNKTYPE, "/etc/passwd")],
    "device": [FILE, ("zero", tarfile.CHRTYPE, "")],
    "pipe": [FILE, ("pipe", tarfile.FIFOTYPE, "")],
    "twice": [FILE, FILE],
    "nothing": [("notes.txt", PLAIN, b"no kernel")],
}


@pytest.mark.parametrize("name", UNSAFE)
def test_unsafe_archives_are_refused(name, tmp_path):
    for suffix in (".tar.gz", *([".zip"] if all(kind in MODES for _, kind, _ in UNSAFE[name]) else [])):
        room = tmp_path / suffix / "room"
        room.mkdir(parents=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # zipfile warns of a name that occurs twice
            archive = packed(tmp_path / f"one{suffix}", *UNSAFE[name])
        before = set(tmp_path.rglob("*"))
        with pytest.raises(submission.Refused):
            submission.stage(archive, room)
        if name != "nothing":
            assert set(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("suffix", [".tar.gz", ".zip"])
@pytest.mark.parametrize(
    "most, entries",
    [
        (12, lambda depth: [("a/" * (depth - 1) + "conv.cpp", PLAIN, CODE)]),
        (500, lambda files: [(f"{number}.h", PLAIN, b"") for number in range(files)]),
        (5000, lambda entries: [(f".{number}", PLAIN, b"") for number in range(entries)]),
        (32 << 20, lambda length: [("a.h", PLAIN, bytes(length - 9)), ("b.h", PLAIN, bytes(9))]),
    ],
    ids=["depth", "files", "entries", "bytes"],
)
def test_limits_of_archives(suffix, most, entries, tmp_path):
    (tmp_path / "to").mkdir()
    unpacked = archives.unpack(packed(tmp_path / f"most{suffix}", *entries(most)), tmp_path / "to")
    assert sorted(map(str, unpacked)) == sorted(name for name, _, _ in entries(most) if name[0] != ".")
    (tmp_path / "more").mkdir()
    with pytest.raises(archives.Refused):
        archives.unpack(packed(tmp_path / f"more{suffix}", *entries(most + 1)), tmp_path / "more")


WORDS = rb"""( { } " ' /* */ R"x( extern"C" template< #include"a.h" forward<gpu,float>( lambda""".split()
WORDS += [b"\\\n", b"\0", b"\xff\xfe", b"9" * 12]


@settings(max_examples=examples(200), deadline=None)
@given(
    st.sampled_from([formats.template(one.name).encode() for one in formats.FORMATS if one.template]),
    st.sampled_from([".cpp", ".cu", ".py", ".h", ".tar.gz", ".zip"]),
    st.lists(st.tuples(st.floats(0, 1), st.sampled_from(["cut", "double", "insert"]), st.sampled_from(WORDS))),
)
def test_damaged_sources_and_archives_are_read_or_refused(source, suffix, changes):
    with tempfile.TemporaryDirectory() as folder:
        path, place = Path(folder) / f"conv{suffix}", Path(folder) / "to"
        place.mkdir()
        if suffix in (".tar.gz", ".zip"):
            source = packed(path, ("conv.cu", PLAIN, source), ("a/b.h", PLAIN, b"//")).read_bytes()
        for where, what, word in changes:
            at = int(where * len(source))
            middle = {"cut": b"", "double": 2 * source[at : at + 40], "insert": word * 3 + source[at : at + 40]}[what]
            source = source[:at] + middle + source[at + 40 :]
        path.write_bytes(source)
        with contextlib.suppress(archives.Refused):
            reading.read(path, place, reading.Wanted())


@pytest.mark.parametrize("name", ["cut.zip", "cut.tar.gz", "packed.7z"])
def test_what_is_no_archive_is_not_read_as_a_kernel(tmp_path, room, name):
    source = tmp_path / name
    source.write_bytes(packed(tmp_path / "one.zip", FILE).read_bytes()[:50])
    with pytest.raises(archives.Refused) as refused:
        reading.read(source, room, reading.Wanted())
    assert "kernel" not in str(refused.value)


@pytest.mark.parametrize("suffix", [".c", ".cpp", ".cc"])
def test_one_of_several_kernels_can_be_named_as_advised(tmp_path, suffix):
    """The advised name keeps the kernel on the CPU."""
    source = tmp_path / "source"
    source.mkdir()
    for name in "a", "b":
        (source / f"{name}{suffix}").write_bytes(HONEST.read_bytes())
    (tmp_path / "first").mkdir()
    with pytest.raises(archives.Refused) as refused:
        reading.read(source, tmp_path / "first", reading.Wanted())
    (source / f"a{suffix}").rename(source / str(refused.value).split()[-1])
    (tmp_path / "second").mkdir()
    assert reading.read(source, tmp_path / "second", reading.Wanted()).backend == "cpu"


def test_folders_with_links_and_hidden_files(tmp_path, room):
    folder = tmp_path / "team"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text("secret")
    (folder / "conv.cpp").write_bytes(CODE)
    assert submission.stage(folder, room).files == ("conv.cpp",)
    (folder / "passwd.h").symlink_to("/etc/passwd")
    with pytest.raises(submission.Refused):
        submission.stage(folder, room)


def test_headers_outside_the_files_folder_are_not_taken(tmp_path, room):
    (tmp_path / "secret.h").write_text("int secret;")
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "mine.h").write_text("int mine;")
    file = tmp_path / "team" / "conv.cpp"
    file.write_bytes(b'#include "mine.h"\n#include "../secret.h"\n' + CODE)
    assert submission.stage(file, room).files == ("conv.cpp", "mine.h")


def _pax(kind, size):
    entry = tarfile.TarInfo("x")
    entry.type, entry.size = kind, size
    return gzip.compress(entry.tobuf(tarfile.PAX_FORMAT) + b"1" * size, 1)


HOSTILE = {
    "long comment.cpp": lambda: b"//" + b"\\a" * (10 << 20) + b"\n" + CODE,
    "long header.tar.gz": lambda: _pax(b"x", 400 << 20),
    "long name.tar.gz": lambda: _pax(b"L", 400 << 20),
    "opened often.cpp": lambda: b'extern "C" ' + b"conv_forward(" * 100_000,
    "deep.py": lambda: b"x = " + b"(" * 100_000,
    "deeper.py": lambda: b"x = " + b"-" * 1_000_000 + b"1",
    "no UTF-8 \udcff.cpp": lambda: CODE,
}


@NEEDS
@pytest.mark.parametrize("other", ["honest.cpp", "team/conv.cpp"])
def test_a_submission_does_not_include_another(other, tmp_path, asked):
    honest, thief = tmp_path / other, tmp_path / "thief.cpp"
    honest.parent.mkdir(exist_ok=True)
    honest.write_text(HONEST.read_text())
    thief.write_text(f'#include "{other}"\n')
    sources = str(tmp_path / other.split("/")[0]), str(thief)
    assert list(grade.identities(grade.GradeRequest(sources[1:], asked))) == [sources[1]]  # may include its own files
    assert list(grade.identities(grade.GradeRequest(sources, asked))) == [sources[0]]
    resumed = grade.GradeRequest(sources[1:], asked, others=sources[:1])
    assert not grade.identities(resumed)


@NEEDS
def test_a_submission_may_include_files_that_have_no_kernel(tmp_path, asked):
    for name in ("conv.cpp", "tool.h", "tool.cpp"):
        (tmp_path / name).write_text("int tool();\n")
    (tmp_path / "conv.cpp").write_text(f'#include "tool.h"\n{HONEST.read_text()}')
    sources = tuple(str(tmp_path / name) for name in ("conv.cpp", "tool.cpp"))  # as a pattern, *.cpp, would name them
    assert list(grade.identities(grade.GradeRequest(sources, asked))) == [sources[0]]


@NEEDS
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_submissions_are_refused(name, tmp_path, room, monkeypatch):
    monkeypatch.setattr(reading, "_SECONDS", 3.0)
    (tmp_path / name).write_bytes(HOSTILE[name]())
    for held in (available(), available()._replace(bubblewrap=None)):
        with pytest.raises(submission.Refused):
            submission.stage(tmp_path / name, room, layers=held)
    assert list(room.iterdir()) == []


@NEEDS
def test_staging_in_a_sandbox_gives_the_same(tmp_path, room):
    (tmp_path / "mine.h").write_text("")
    file = tmp_path / "conv.cpp"
    file.write_bytes(b'#include "mine.h"\n#include "%b"\n#include "a\0b"\n' % (b"a" * 5000) + CODE)
    plain = submission.stage(file, room)
    assert plain.files == ("conv.cpp", "mine.h") and plain.kernel.format.name == "c-cpu"
    for held in (available(), available()._replace(bubblewrap=None)):
        assert submission.stage(file, room, layers=held) == plain


@NEEDS
def test_a_warning_of_python_is_no_answer(tmp_path, room):
    (tmp_path / "conv.py").write_text('PATTERN = "\\d"\n\n\ndef conv_forward(x, k):\n    return None\n')
    assert submission.stage(tmp_path / "conv.py", room, layers=available()).kernel.format.name == "python"


ERRORS = [RecursionError(), MemoryError(), BrokenPipeError(), ValueError("no"), KeyError("a")]
UNEXPECTED = [(error, where) for error in ERRORS for where in ("_prepared", "observe", "number")]


@NEEDS
@pytest.mark.parametrize("error, where", drawn(UNEXPECTED, 1))
def test_an_unexpected_error_fails_only_its_submission(where, error, asked, monkeypatch):
    def fails(*_, **__):
        monkeypatch.undo()
        raise error

    if where == "_prepared":
        monkeypatch.setattr(grade.submission, "stage", fails)
    elif where == "observe":
        monkeypatch.setattr(grade.Referee, "observe", fails)
    else:
        monkeypatch.setattr(verdict, "as_json", fails)
    first, second = sorted(judged(asked, HONEST, HONEST), key=lambda one: one.status)
    assert (first.status, first.ranked, first.marks.points) == ("failed", False, 0)
    assert second.status == "judged" and second.marks.points == 100


def test_the_page_on_threats_names_the_attacks():
    page = (ATTACKS.parents[1] / "docs" / "threats.md").read_text()
    named = {
        cell.strip() for line in page.splitlines() if line.startswith("| ") for cell in line.split("|")[2].split(",")
    }
    files = {path.stem for path in [*on_cpu().values(), *(ATTACKS / "gpu").glob("*.cu")]}
    assert files - named - {"caches-by-content", "caches-by-pointer", "exits-early", "reads-passwd"} == set()
