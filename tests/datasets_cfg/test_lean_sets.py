"""The shipped sets of Lean statements on their real rows."""

import functools
import io
import tarfile

import pytest

from verigym import UsageError
from verigym.datasets_cfg import available, load, load_config
from verigym.datasets_cfg.reading import MAX_LEAN_FILE_BYTES, lean_files
from verigym.envs.lean.completion import read_submission
from verigym.envs.lean.guard import refusal


@functools.cache
def prompts_of(name, split, data_dir):
    return list(load(name, split, data_dir=data_dir))


LEAN_SETS = [name for name in available() if load_config(name).environment == "lean"]


def test_which_there_are():
    assert LEAN_SETS == ["minif2f", "minif2f_files", "minif2f_nemo_gym", "minif2f_proved", "proofnet", "putnambench"]
    for name in LEAN_SETS:
        config = load_config(name)
        assert "test" in config.evaluation_only or name == "minif2f_proved"
        assert "Lean 4." in config.description and "one fenced ```lean block" in config.prompt


@pytest.mark.parametrize(
    ("name", "split", "rows", "first"),
    [
        ("minif2f", "all", 488, "amc12a_2019_p21"),
        ("minif2f", "valid", 244, "amc12a_2019_p21"),
        ("minif2f", "test", 244, "mathd_algebra_478"),
        ("minif2f_nemo_gym", "test", 244, "mathd_algebra_478"),
        ("minif2f_files", "all", 488, "aime_1983_p1"),
        ("minif2f_files", "valid", 244, "aime_1983_p2"),
        ("minif2f_files", "test", 244, "aime_1983_p1"),
        ("minif2f_proved", "valid", 67, "mathd_algebra_182"),
        ("proofnet", "all", 371, "exercise_1_13a"),
        ("proofnet", "valid", 185, "exercise_1_13a"),
        ("proofnet", "test", 186, "exercise_1_13b"),
        ("putnambench", "test", 644, "putnam_2010_a4"),
    ],
)
def test_every_row_makes_a_prompt(shared_data, name, split, rows, first):
    prompts = prompts_of(name, split, shared_data)
    assert len(prompts) == rows == len({prompt.key for prompt in prompts})
    assert split == "all" or len({prompt.references["lean"].statement for prompt in prompts}) == rows
    assert prompts[0].metadata["task_id"] == first or name == "minif2f_files"
    for prompt in prompts:
        reference = prompt.references["lean"]
        assert reference.name == prompt.metadata["task_id"] and reference.statement in prompt.text
        assert "import Mathlib" in reference.header and "import Mathlib" in prompt.text
        assert "  sorry\n```" in prompt.text and reference.mode == "slot"


def test_carriers_agree_on_which_problems_there_are(shared_data):
    def names(name, split):
        return {prompt.metadata["task_id"] for prompt in prompts_of(name, split, shared_data)}

    assert names("minif2f", "test") == names("minif2f_nemo_gym", "test")
    assert names("minif2f_proved", "valid") <= names("minif2f", "valid")
    assert not names("minif2f", "valid") & names("minif2f", "test")
    ours, files = names("minif2f", "all"), names("minif2f_files", "all")
    assert len(ours & files) == 487 and len(files) == 488  # one problem has two names


def test_a_prompt_answered_as_it_shows_is_read(shared_data):
    """The code of each prompt, with its `sorry`, comes back as the proof `by sorry`: statement and header are recognised."""
    for name in ("minif2f", "proofnet"):
        for prompt in prompts_of(name, "all", shared_data):
            reference = prompt.references["lean"]
            shown = prompt.text[prompt.text.index("```lean") :].partition("\n```\n")[0] + "\n```\n"
            proof = read_submission(shown, "slot", statement=reference.statement, header=reference.header)
            assert isinstance(proof, str) and proof.split() in (["by", "sorry"], ["sorry"]), prompt.metadata
            assert refusal(proof) is None


def test_proved_rows_have_a_gold(shared_data):
    prompts = load("minif2f_proved", "valid", data_dir=shared_data)
    for prompt in prompts:
        gold = prompts.environment.gold(prompt)
        reference = prompt.references["lean"]
        assert read_submission(gold, "slot", statement=reference.statement).strip() == reference.solution.strip()
        assert reference.solution.startswith("by\n") and refusal(reference.solution) is None
    assert load("minif2f", "valid", data_dir=shared_data).environment.gold(prompts[0]) is not None


def archive(path, files):
    with tarfile.open(path, "w:gz") as made:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    return path


def test_an_archive_of_files_gives_a_row_each(tmp_path):
    files = {
        "R/Test/b.lean": b"theorem b",
        "R/Test/a.lean": "ℝ".encode(),
        "R/Test.lean": b"",
        "R/Test/a.md": b"",
        "a.lean": b"",
    }
    rows = lean_files(archive(tmp_path / "x.tar.gz", files))
    assert rows == [{"name": "a", "folder": "Test", "text": "ℝ"}, {"name": "b", "folder": "Test", "text": "theorem b"}]
    with pytest.raises(ValueError, match="a.lean has 1,048,577 bytes"):
        lean_files(archive(tmp_path / "y.tar.gz", {"R/T/a.lean": bytes(MAX_LEAN_FILE_BYTES + 1)}))


def test_an_archive_that_cannot_be_read_is_named(tmp_path):
    folder = tmp_path / "lean_minif2f"
    folder.mkdir()
    path = folder / "yangky11_miniF2F_lean4_files.tar.gz"
    path.write_bytes(b"not an archive")
    with pytest.raises(UsageError, match="yangky11_miniF2F_lean4_files.tar.gz cannot be read"):
        load("minif2f_files", "all", data_dir=tmp_path)


def test_rows_chosen_by_a_text(make, tmp_path):
    rows = [{"question": f"{n}?", "answer": f"#### {n}", "level": n, "kind": "odd" if n % 2 else "even"} for n in range(5)]
    chosen = "files: {train: {path: rows.jsonl, where: {column: kind, equals: odd}}}"
    path = make(rows, ("files: {train: rows.jsonl}", chosen))
    assert [prompt.metadata["level"] for prompt in load(path, "train", data_dir=tmp_path)] == [1, 3]
    path = make(rows, ("files: {train: rows.jsonl}", chosen.replace("kind", "sort")))
    with pytest.raises(UsageError, match="no column 'sort' to choose rows by"):
        load(path, "train", data_dir=tmp_path)
