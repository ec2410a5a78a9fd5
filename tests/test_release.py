"""The release: what it refuses, and archives that depend on a commit alone."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[1]
COMMITTED = 1_700_000_000
PROJECT = """
[project]
name = "toy"
dynamic = ["version"]
[tool.setuptools.dynamic]
version = {attr = "keras_transformer.__version__"}
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
"""
# Writes another file each time.
SETUP = """
import pathlib, time, setuptools
pathlib.Path("keras_transformer/made.py").write_text(f"t = {time.time_ns()}")
setuptools.setup()
"""


WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))
# Of jobs; each of these needs it to publish or to sign.
WRITING = {
    ("docs", "deploy"): {"id-token", "pages"},
    ("release", "build"): {"attestations", "id-token"},
    ("release", "publish"): {"id-token"},
}


def git(folder, *arguments):
    name = {
        f"GIT_{role}_{key}": value
        for role in ("AUTHOR", "COMMITTER")
        for key, value in {
            "NAME": "a",
            "EMAIL": "a@example.com",
            "DATE": f"{COMMITTED} +0000",
        }.items()
    }
    subprocess.run(
        ["git", *arguments], cwd=folder, env=os.environ | name, check=True
    )


@pytest.fixture
def checkout(tmp_path):
    """Returns a function that commits a small project; with more files."""
    folder = tmp_path / "checkout"

    def commit(**files):
        for name in ("bin", "keras_transformer"):
            (folder / name).mkdir(parents=True)
        for name in ("bin/release", "bin/environment"):
            shutil.copy(ROOT / name, folder / name)
        (folder / ".venv").symlink_to(sys.prefix)
        (folder / ".gitignore").write_text(".venv\n")
        (folder / "pyproject.toml").write_text(PROJECT)
        package = folder / "keras_transformer/__init__.py"
        package.write_text('"""A toy."""\n\n__version__ = "1.2.3"\n')
        for name, text in files.items():
            (folder / f"{name}.py").write_text(text)
        git(folder, "init", "--quiet")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "--message=First")
        return folder

    return commit


def call(folder, function, work):
    """Calls a function of bin/release; returns its CompletedProcess."""
    (work / "out").mkdir(parents=True, exist_ok=True)
    code = f". bin/release; work={work}; {function}"
    return subprocess.run(
        ["bash", "-c", code], cwd=folder, capture_output=True, text=True
    )


def test_the_citation_has_the_version():
    code = (ROOT / "keras_transformer/__init__.py").read_text("utf-8")
    version = re.search(r'^__version__ = "(.*)"$', code, re.MULTILINE)[1]
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {version}\n" in citation


def test_uncommitted_changes_and_a_tag_of_another_version_are_refused(
    checkout, tmp_path
):
    folder = checkout()
    assert call(folder, "check_checkout", tmp_path).returncode == 0
    git(folder, "tag", "v1.2.3")
    assert call(folder, "check_checkout", tmp_path).returncode == 0
    git(folder, "tag", "v1.3.0")
    refused = call(folder, "check_checkout", tmp_path)
    assert refused.returncode == 2
    assert "v1.3.0" in refused.stderr
    git(folder, "tag", "--delete", "v1.3.0")
    with (folder / "pyproject.toml").open("a") as file:
        file.write("\n")
    assert call(folder, "check_checkout", tmp_path).returncode == 2


def test_archives_have_the_time_of_the_commit_and_no_user(checkout, tmp_path):
    done = call(checkout(), "build_distributions", tmp_path / "work")
    assert done.returncode == 0, done.stderr
    wheel, sdist = sorted(
        (tmp_path / "work/out").iterdir(),
        key=lambda path: path.suffix != ".whl",
    )
    assert wheel.name.startswith("toy-1.2.3-")
    with zipfile.ZipFile(wheel) as archive:
        times = {each.date_time for each in archive.infolist()}
        assert "keras_transformer/__init__.py" in archive.namelist()
    assert times == {time.gmtime(COMMITTED)[:6]}
    assert sdist.name == "toy-1.2.3.tar.gz"
    # The time in the header of gzip.
    assert sdist.read_bytes()[4:8] == COMMITTED.to_bytes(4, "little")
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
        assert "toy-1.2.3/keras_transformer/__init__.py" in archive.getnames()
        content = archive.extractfile("toy-1.2.3/pyproject.toml").read()
    assert content.decode() == PROJECT
    assert {each.mtime for each in members} == {COMMITTED}
    owners = {(each.uid, each.gid, each.uname, each.gname) for each in members}
    assert owners == {(0, 0, "", "")}


def test_a_build_that_differs_is_refused(checkout, tmp_path):
    done = call(checkout(setup=SETUP), "build_distributions", tmp_path / "work")
    assert done.returncode == 2
    assert not list((tmp_path / "work/out").iterdir())


FLAW = {"id": "X-1", "fix_versions": []}
SKIPPED = {"name": "b", "skip_reason": "not found"}


@pytest.mark.parametrize(
    "packages, code, is_kept",
    [
        ([{"name": "a", "version": "1", "vulns": []}, SKIPPED], 0, True),
        ([{"name": "a", "version": "1", "vulns": [FLAW]}, SKIPPED], 2, True),
        # pip-audit succeeds also where an index has no data.
        ([SKIPPED], 0, False),
        (None, 0, False),
    ],
)
def test_an_audit_ends_a_release_with_known_flaws(
    checkout, tmp_path, packages, code, is_kept
):
    """`packages` are those of the report; None if pip-audit wrote none."""
    report = tmp_path / "work/out/audit.json"
    tool = tmp_path / "work/tools/bin/pip-audit"
    tool.parent.mkdir(parents=True)
    line = f"echo '{json.dumps({'dependencies': packages})}' >{report}; exit 1"
    tool.write_text("#!/bin/sh\n" + (line if packages else "exit 1") + "\n")
    tool.chmod(0o755)
    done = call(checkout(), "write_audit", tmp_path / "work")
    assert done.returncode == code, done.stderr
    assert report.exists() == is_kept


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_run_scripts_that_exist_with_few_permissions(path):
    text = path.read_text("utf-8")
    workflow = yaml.safe_load(text)
    assert "secrets." not in text
    # YAML 1.1 reads the key "on" as true.
    assert workflow.keys() >= {"name", True, "permissions", "jobs"}
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        permissions = job.get("permissions", {}).items()
        writing = {key for key, value in permissions if value == "write"}
        assert writing == WRITING.get((path.stem, name), set())
        for step in job["steps"]:
            assert step.keys() & {"run", "uses"}
            if "uses" in step:
                assert re.fullmatch(r"[\w./-]+@(release/)?v\d+", step["uses"])
            scripts = re.findall(
                r"(?:\bbash |^\. |--file=)([\w./]+)", step.get("run", ""), re.M
            )
            for script in scripts:
                assert (ROOT / script).is_file(), script


def test_a_tag_is_compared_with_the_version_before_a_release():
    """The step's own line, for a tag with the version and for another one."""
    path = ROOT / ".github/workflows/release.yml"
    workflow = yaml.safe_load(path.read_text("utf-8"))
    steps = workflow["jobs"]["build"]["steps"]
    lines = [step["run"] for step in steps if "run" in step]
    compare = lines[: lines.index("bash bin/release")]
    code = (ROOT / "keras_transformer/__init__.py").read_text("utf-8")
    version = re.search(r'^__version__ = "(.*)"$', code, re.MULTILINE)[1]
    for tag, is_refused in ((f"v{version}", False), ("v99.0.0", True)):
        environment = os.environ | {"GITHUB_REF_NAME": tag}
        (line,) = compare
        done = subprocess.run(["bash", "-c", line], cwd=ROOT, env=environment)
        assert bool(done.returncode) == is_refused


@pytest.mark.parametrize("name", ["bug", "feature"])
def test_issue_forms_ask_each_question_once(name):
    path = ROOT / f".github/ISSUE_TEMPLATE/{name}.yml"
    form = yaml.safe_load(path.read_text("utf-8"))
    assert form["name"] and form["description"]
    ids = [question["id"] for question in form["body"]]
    assert len({*ids}) == len(ids)
    for question in form["body"]:
        assert question["type"] in ("input", "textarea")
        assert question["attributes"]["label"]
