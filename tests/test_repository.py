"""House rules that hold for the repository as a whole, and pages that have to agree with the program."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from warpsmith import Cost, Mode, Target
from warpsmith.project.config import load_config
from warpsmith.project.discover import list_targets

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "skills/**/*.md")
    for path in ROOT.glob(pattern)
    if path.name != "CHANGELOG.md"
)

MAX_MODULE_LINES = 300
#: A kernel is one file that a user can take: both passes, their launching, the function, its reference. A winner adds
#: a table of settings, applied byte for byte as it was measured.
MAX_KERNEL_LINES = 500
VAGUE_NAMES = re.compile(r"(?:^|_)(?:utils?|helpers?|common|misc|managers?)$")
#: A folder of one machine, or the host of a package index.
MACHINE_WORDS = re.compile(
    r"/(?:work|farm)/|/home/\w+/|/Users/\w+/|/root/\w|--(?:extra-)?index-url|https?://[^\s]*/simple\b"
)

FENCE = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"`([^`\n]+)`")
COMMAND = re.compile(r"(?:^|[\s$;&|(])(?<!from )warpsmith[ \t]+([a-z-][^\n;&|#)]*)", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


def repository_files() -> list[Path]:
    """What is in the repository, or about to be: everything git does not ignore."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in sorted(set(listing.stdout.split("\0"))) if name and (ROOT / name).is_file()]


def commands_named_in(text: str) -> Iterator[list[str]]:
    """The words after `warpsmith`, in fenced blocks and code spans."""
    fences = FENCE.findall(text)
    spans = CODE_SPAN.findall(FENCE.sub("", text))
    for code in (*fences, *spans):
        for found in COMMAND.finditer(code):
            yield found.group(1).split()


def next_commands_in(tree: ast.AST) -> Iterator[tuple[int, list[str]]]:
    """What the program itself tells people to run: (line, the words after `warpsmith`)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "next_command":
            pieces = node.value.values if isinstance(node.value, ast.JoinedStr) else [node.value]
            text = "".join(
                str(piece.value) if isinstance(piece, ast.Constant) and piece.value is not None else "X"
                for piece in pieces
            )
            if text.startswith("warpsmith "):
                yield node.value.lineno, text.split()[1:]


def complaint(words: list[str], program: TyperGroup) -> str | None:
    """Why a command line on a page is not one that the program takes, or None."""
    name = words[0]
    command = program if name.startswith("-") else program.commands.get(name)
    if command is None:
        return f"no command {name!r}; there are {sorted(program.commands)}"
    if isinstance(command, TyperGroup) and words[1:]:
        return complaint(words[1:], command)
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    flags = {re.split(r"[=\]]", word.lstrip("["))[0] for word in words if word.lstrip("[").startswith("-")}
    unknown = flags - known - {"--help"}
    return f"{name} has no option {sorted(unknown)}" if unknown else None


def as_group(app: typer.Typer) -> TyperGroup:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    return group


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def program() -> TyperGroup:
    from warpsmith.cli.app import app

    return as_group(app)


def test_no_module_is_longer_than_one_thing_needs() -> None:
    lengths = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}

    def limit(name: str) -> int:
        return MAX_KERNEL_LINES if "/kernels/" in name else MAX_MODULE_LINES

    assert {name: lines for name, lines in lengths.items() if lines > limit(name)} == {}


def test_every_module_says_what_it_owns() -> None:
    silent = [relative(path) for path in SOURCES if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))]

    assert silent == []


def test_no_file_or_folder_has_a_name_that_says_nothing() -> None:
    vague = [
        relative(path)
        for path in SOURCES
        if any(VAGUE_NAMES.search(part) for part in path.relative_to(ROOT).with_suffix("").parts)
    ]

    assert vague == []


@pytest.mark.parametrize("name", ["utils", "helper", "string_utils", "common", "misc", "manager"])
def test_a_vague_name_is_recognised(name: str) -> None:
    assert VAGUE_NAMES.search(name)


def test_no_file_names_a_machine_or_a_package_host() -> None:
    found = []
    for path in repository_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{relative(path)}: {match.group()}" for match in MACHINE_WORDS.finditer(text)]

    assert found == []


@pytest.mark.parametrize(
    "text",
    ["/home" + "/someone/file", "pip --" + "index-url x", "https:" + "//index.example/simple", "/root" + "/x"],
)
def test_a_machine_word_is_recognised(text: str) -> None:
    assert MACHINE_WORDS.search(text)


def test_nothing_is_left_for_later() -> None:
    marks = re.compile(r"\b(?:" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)) + r")\b")
    code = [*SOURCES, *sorted((ROOT / "tests").rglob("*.py")), *PAGES]

    assert [relative(path) for path in code if marks.search(path.read_text(encoding="utf-8"))] == []


def test_the_page_for_agents_stays_short() -> None:
    assert len((ROOT / "AGENTS.md").read_text(encoding="utf-8").splitlines()) < 150


def test_every_command_on_a_page_exists(program: TyperGroup) -> None:
    named = [(page, words) for page in PAGES for words in commands_named_in(page.read_text(encoding="utf-8"))]
    wrong = [f"{relative(page)}: warpsmith {' '.join(words)}: {complaint(words, program)}" for page, words in named]

    assert [line for line in wrong if not line.endswith(": None")] == []
    assert {"run", "next", "doctor"} <= {words[0] for _, words in named}


def test_every_command_that_an_error_recommends_exists(program: TyperGroup) -> None:
    named = [(path, *found) for path in SOURCES for found in next_commands_in(ast.parse(path.read_text("utf-8")))]
    wrong = [f"{relative(path)}:{line}: {complaint(words, program)}" for path, line, words in named]

    assert [line for line in wrong if not line.endswith(": None")] == []
    assert {"doctor", "list"} <= {words[0] for _, _, words in named}


def test_a_recommended_command_is_found_with_its_blanks_filled() -> None:
    tree = ast.parse(
        "E('a', next_command=f'warpsmith run {kernel} --fresh')\n"
        "E('b', next_command='edit warpsmith.yaml')\n"
        "E('c', next_command=None)\n"
        "E('d', next_command='warpsmith doctor')"
    )

    assert list(next_commands_in(tree)) == [(1, ["run", "X", "--fresh"]), (4, ["doctor"])]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["conjure", "rms_norm"], "no command 'conjure'; there are ['run', 'status']"),
        (["run", "rms_norm", "--magic"], "run has no option ['--magic']"),
        (["run", "rms_norm", "[--goal", "full]"], None),
        (["run", "rms_norm", "--no-json"], None),
        (["--help"], None),
    ],
)
def test_a_command_line_is_judged_by_the_program(words: list[str], expected: str | None) -> None:
    app = typer.Typer()

    @app.command()
    def run(goal: str = typer.Option("full"), json: bool = typer.Option(False)) -> None: ...

    @app.command()
    def status() -> None: ...

    assert complaint(words, as_group(app)) == expected


def test_commands_are_found_in_fences_and_spans_and_not_in_prose() -> None:
    page = (
        "warpsmith looks at `warpsmith status K`.\n"
        "```bash\ncd x && warpsmith run K --yes  # go\n```\n"
        "```python\nfrom warpsmith import Target\n```\n"
        "`warpsmith.yaml`, `pip install warpsmith`"
    )

    assert list(commands_named_in(page)) == [["run", "K", "--yes"], ["status", "K"]]


def test_our_own_configuration_is_valid_and_finds_our_targets() -> None:
    config = load_config(ROOT)

    assert "rms_norm" in list_targets(ROOT, config)
    assert config.style_command is not None


def test_the_target_on_the_front_page_makes_its_inputs_and_tells_its_cost() -> None:
    page_text = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^<!-- target -->\n```python\n(.*?)^```", page_text, re.M | re.S)
    page: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), page)
    target, held_out = page["target"], page["target"].cases[1]

    inputs = target.make_inputs(held_out, "cpu", page["torch"].Generator().manual_seed(0))

    assert isinstance(target, Target)
    assert tuple(target.reference(inputs).shape) == (1_000_003,)
    assert target.cost(held_out, Mode.FORWARD) == Cost(bytes_moved=3 * 1_000_003 * 2, flops=1_000_003)
    assert all((ROOT / path).exists() for path in (target.source, *target.tests))


@pytest.mark.filterwarnings("ignore:.*Triton cannot run on")
def test_the_library_s_examples_on_the_front_page_run_one_after_the_other() -> None:
    page_text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = page_text.partition("\n## The kernels\n")[2].partition("\n## ")[0]
    page: dict[str, Any] = {}
    for code in re.findall(r"^```python\n(.*?)^```", section, re.M | re.S):
        exec(compile(code, "README.md", "exec"), page)

    assert page["y"].shape == page["z"].shape == page["x"].shape
    assert page["loss"].isfinite() and page["head"].weight.grad is not None
    assert type(page["model"][1]) is page["torch"].nn.LayerNorm


def test_every_link_between_pages_leads_somewhere() -> None:
    broken = [
        f"{relative(page)}: {link}"
        for page in PAGES
        for link in LINK.findall(page.read_text(encoding="utf-8"))
        if not re.match(r"[a-z]+:", link) and not (page.parent / link).exists()
    ]

    assert broken == []
