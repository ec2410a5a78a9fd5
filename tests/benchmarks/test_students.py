import json
import re

from tests.benchmarks import decoding
from tests.trainers import cipher
from trainers.data import open_corpus


def write(folder, dataset, students):
    """A folder as trainers.distill leaves it: what is read of it."""
    scores = folder / "scores"
    scores.mkdir(parents=True)
    facts = {
        "dataset": dataset,
        "source_language": cipher.SOURCE,
        "target_language": cipher.TARGET,
    }
    (folder / "distill.json").write_text(json.dumps({"facts": facts}))
    for name, lines in students.items():
        text = "".join(f"{line}\n" for line in lines)
        (scores / name).write_text(text, encoding="utf-8")


def test_students_of_two_corpora(tmp_path):
    right = []
    for number in "12":
        (tmp_path / number).mkdir()
        dataset = cipher.write(tmp_path / number)
        languages = cipher.SOURCE, cipher.TARGET
        test = open_corpus(dataset, *languages).evaluation_set("test")
        right = [row[0] for row in test.references]
        wrong = [line.split()[0] for line in right]
        write(
            tmp_path / f"distilled-{number}",
            dataset,
            {"teacher": right, "student": right, "student-2": wrong},
        )
    folders = [tmp_path / f"distilled-{number}" for number in "12"]
    arguments = [f"--distilled={folder}" for folder in folders]
    result = decoding.run("students", *arguments)
    assert result.code == 0, result.err
    head, *rows = re.findall(
        r"\| (student\S*|all) \| (\S*) ?\| (\S*) ?\| (\S+) ", result.out
    )
    assert head[1] == "BLEU"
    names = ["student", "student-2", "student", "student-2", "all"]
    assert [row[0] for row in rows] == names
    assert rows[0][1:] == ("100.00", "100.00", "+0.00")
    loss = float(rows[1][3])
    assert loss < -20
    # Half of all sentences are the second students'.
    assert loss < float(rows[4][3]) < 0
    (folders[1] / "scores" / "student").write_text("one\n")
    result = decoding.run("students", *arguments)
    assert result.code == 2
    assert f"1 lines for {len(right)} sentences" in result.err
    result = decoding.run("students", f"--distilled={tmp_path}")
    assert "is no folder of trainers.distill" in result.err
