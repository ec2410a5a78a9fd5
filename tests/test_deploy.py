"""The files of deploy/ fit the server; the steps of its image are run."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tomllib

import pytest
import yaml

from export.http_server.app import create_app
from tests import made_up_text, processes
from tests.export import tiny
from tests.export.http_server.running import MadeUpModel, request

ROOT = processes.ROOT
DEPLOY = ROOT / "deploy"
IMAGES = SERVE, TENSORFLOW_SERVING = (
    "Dockerfile.serve",
    "Dockerfile.tensorflow-serving",
)

# Runs a command as a container does: with a root of its own, here the
# system's programs and this Python as /usr/local, and as process 1.
CONTAINER = """
set -e
root=$1 python=$2 options=$3 user=$4
shift 4
mount --bind "$root" "$root"
mkdir -p "$root"/dev "$root"/proc "$root"/tmp
for folder in usr bin lib lib64 etc; do
  [ -e /$folder ] || continue
  mkdir -p "$root/$folder"
  mount --bind /$folder "$root/$folder"
done
mount --bind "$python" "$root/usr/local"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -o "remount,bind,$options" "$root"
exec chroot "$root" setpriv --reuid="$user" --regid="$user" --clear-groups \
  --no-new-privs env -i LD_LIBRARY_PATH=/usr/local/lib "$@"
"""


def steps(name):
    """Returns the pairs (instruction, its arguments) of a Dockerfile."""
    text = (DEPLOY / name).read_text("utf-8")
    lines = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    lines = lines.replace("\\\n", " ").splitlines()
    return [tuple(line.split(None, 1)) for line in lines if line]


def settings(name):
    """Returns the last value of each instruction."""
    return dict(steps(name))


def parse_copy(value, default_export="exports/demo"):
    """Returns the stage (None for the repository), the sources, the target."""
    *words, target = value.replace("${EXPORT}", default_export).split()
    if words[0].startswith("--from="):
        return words[0].removeprefix("--from="), words[1:], target
    return None, words, target


def copied_files(name):
    """Returns the pairs (source, target) of files of the repository."""
    pairs = []
    for instruction, value in steps(name):
        if instruction == "COPY":
            stage, sources, target = parse_copy(value)
            pairs += [(each, target) for each in sources if stage is None]
    return pairs


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))


@pytest.fixture(scope="module")
def kubernetes():
    text = (DEPLOY / "kubernetes.yaml").read_text("utf-8")
    return {each["kind"]: each["spec"] for each in yaml.safe_load_all(text)}


@pytest.fixture(scope="module")
def pod(kubernetes):
    return kubernetes["Deployment"]["template"]["spec"]


@pytest.fixture(scope="module")
def paths():
    """Returns the paths that the server answers to GET."""
    routes = create_app({"translator": MadeUpModel().load()}).routes
    return [route.path for route in routes if "GET" in route.methods]


@pytest.mark.parametrize("name", IMAGES)
def test_images_copy_files_that_exist_and_are_not_ignored(name):
    ignored = (DEPLOY / f"{name}.dockerignore").read_text("utf-8").split("\n")
    allowed = [f"{line[1:]}/" for line in ignored if line.startswith("!")]
    sources = [source for source, _ in copied_files(name)]
    assert sources
    for source in sources:
        assert f"{source}/".startswith(tuple(allowed))
        # The demo makes it.
        is_made = f"export_dir={source}\n" in (ROOT / "bin/demo").read_text()
        assert is_made or (ROOT / source).exists()


def test_the_image_has_all_packages():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    patterns = project["tool"]["setuptools"]["packages"]["find"]["include"]
    copied = {source for source, _ in copied_files(SERVE)}
    assert {pattern.rstrip("*") for pattern in patterns} <= copied


@pytest.mark.parametrize("name", IMAGES)
def test_images_run_one_process_of_another_user_than_root(name):
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", settings(name)["USER"])
    # A shell would not pass signals on.
    assert json.loads(settings(name)["ENTRYPOINT"])


def test_the_image_has_the_flags_the_port_and_the_path_of_the_server(paths):
    image = settings(SERVE)
    python, option, module, *flags = json.loads(image["ENTRYPOINT"])
    assert [python, option] == ["python", "-m"]
    source = json.dumps([flags]).encode()
    parser = {"module": "tests.parse_flags"}
    assert processes.run(parser, [module], source=source).out == "[null]\n"
    usage = processes.run({"module": module}, ["--help"]).out
    default = re.search(r"--port:.*?\(default: '(\d+)'\)", usage, re.DOTALL)[1]
    assert "--host=0.0.0.0" in flags
    asked = re.search(r"127\.0\.0\.1:(\d+)(/\w+)", image["HEALTHCHECK"])
    assert asked[1] == image["EXPOSE"] == default
    assert asked[2] in paths


def test_tensorflow_serving_reads_the_files_where_they_are_copied():
    image = settings(TENSORFLOW_SERVING)
    flags = json.loads(image["ENTRYPOINT"])[1:]
    values = dict(flag[2:].partition("=")[::2] for flag in flags)
    files = {}
    for source, target in copied_files(TENSORFLOW_SERVING):
        name = pathlib.PurePath(source).name
        files[f"{target}{name}" if target[-1] == "/" else target] = source
    config = (ROOT / files[values["model_config_file"]]).read_text("utf-8")
    assert files[re.search(r'base_path: "(.*)"', config)[1]] == "exports/demo"
    assert (ROOT / files[values["batching_parameters_file"]]).is_file()
    assert [values["port"], values["rest_api_port"]] == image["EXPOSE"].split()


def test_compose_publishes_the_ports_of_both_images(compose):
    services = compose["services"].values()
    names = [service["build"]["dockerfile"] for service in services]
    assert names == [f"deploy/{name}" for name in IMAGES]
    for name, service in zip(IMAGES, services):
        folder = DEPLOY / service["build"]["context"]
        assert folder.resolve() == ROOT
        assert service["read_only"] and service["cap_drop"] == ["ALL"]
        ports = [port.rpartition(":")[2] for port in service["ports"]]
        assert ports == settings(name)["EXPOSE"].split()
    (volume,) = compose["services"]["serve"]["volumes"]
    folder, mode = volume.split(":")[-2:]
    assert f"--model={folder}" in settings(SERVE)["ENTRYPOINT"]
    assert mode == "ro"


def test_kubernetes_asks_for_pages_that_the_server_has(kubernetes, pod, paths):
    deployment, service = kubernetes["Deployment"], kubernetes["Service"]
    metadata = deployment["template"]["metadata"]
    assert deployment["selector"]["matchLabels"] == metadata["labels"]
    assert service["selector"] == metadata["labels"]
    (container,) = pod["containers"]
    (port,) = container["ports"]
    number = settings(SERVE)["EXPOSE"]
    assert str(port["containerPort"]) == number
    assert service["ports"][0]["targetPort"] == port["name"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["path"] in paths and asked["port"] == port["name"]
    assert metadata["annotations"]["prometheus.io/port"] == number
    assert metadata["annotations"]["prometheus.io/path"] in paths


def test_kubernetes_confines_the_server(pod):
    (container,) = pod["containers"]
    security = container["securityContext"]
    assert security["readOnlyRootFilesystem"]
    assert not security["allowPrivilegeEscalation"]
    user = pod["securityContext"]
    assert user["runAsNonRoot"]
    group = f"{user['runAsUser']}:{user['runAsGroup']}"
    assert group == settings(SERVE)["USER"]
    mounts = {each["name"]: each for each in container["volumeMounts"]}
    assert mounts.keys() == {each["name"] for each in pod["volumes"]}
    folder = mounts["model"]["mountPath"]
    assert f"--model={folder}" in settings(SERVE)["ENTRYPOINT"]
    assert container["resources"]["limits"]["memory"]


def start(root, environment, command, options="rw", user="0"):
    """Starts a command as in a container with this root; returns its Popen.

    `environment` is a list of "NAME=value".
    """
    return subprocess.Popen(
        [
            *("unshare", "--mount", "--pid", "--fork", "--kill-child"),
            *("bash", "-c", CONTAINER, "bash"),
            *(root, sys.base_prefix, options, user, *environment, *command),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def build(name, folder):
    """Runs the steps of a Dockerfile; returns the folder of its last stage."""
    environment = ["PATH=/usr/local/bin:/usr/bin:/bin"]
    environment += [
        f"{name}={value}"
        for name, value in os.environ.items()
        if name.startswith("PIP_")
    ]
    for instruction, value in steps(name):
        if instruction == "FROM":
            root = folder / (value.partition(" AS ")[2] or "last")
            root.mkdir()
            working = "/"
        elif instruction == "WORKDIR":
            working = value
        elif instruction == "COPY":
            stage, sources, target = parse_copy(value)
            for each in sources:
                source = folder / stage / each[1:] if stage else ROOT / each
                to = root / str(pathlib.PurePath(working, target))[1:]
                to = to / source.name if target.endswith("/") else to
                to.parent.mkdir(parents=True, exist_ok=True)
                # Some gigabytes of the stage are not written again.
                options = "-al" if stage else "-a"
                subprocess.run(["cp", options, source, to], check=True)
        elif instruction == "RUN":
            line = f"mkdir -p {working} && cd {working} && {value}"
            process = start(root, environment, ["sh", "-c", line])
            out, _ = process.communicate()
            assert process.returncode == 0, out
    return root


@pytest.fixture
def folder(tmp_path):
    yield tmp_path
    # Some gigabytes.
    shutil.rmtree(tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0,
    reason="only Linux' root starts processes with another root",
)
def test_the_image_serves_from_a_read_only_root_and_stops(folder):
    root = build(SERVE, folder)
    image = settings(SERVE)
    tiny.write(root / "model", seed=5)
    texts = made_up_text.sentences()[:5]
    expected = tiny.translator(root / "model").translate(texts)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    python, *check = json.loads(image["HEALTHCHECK"].partition("CMD ")[2])
    check = [sys.executable, *check[:-1], check[-1].replace("5000", str(port))]
    command = [*json.loads(image["ENTRYPOINT"]), f"--port={port}"]
    user = image["USER"].partition(":")[0]
    with start(root, image["ENV"].split(), command, "ro", user) as process:
        try:
            line = process.stdout.readline()
            assert line.startswith("Serving"), line + process.stdout.read()
            subprocess.run(check, check=True)
            url = f"http://127.0.0.1:{port}/v1/models/translator:predict"
            status, content = request(url, {"instances": texts})
            assert status == 200
            found = [row["translation"] for row in content["predictions"]]
            assert found == [each.text for each in expected]
            children = f"/proc/{process.pid}/task/{process.pid}/children"
            served = int(pathlib.Path(children).read_text())
            assert pathlib.Path(f"/proc/{served}").stat().st_uid == int(user)
            os.kill(served, signal.SIGTERM)
            assert process.wait(30) == 0
            assert subprocess.run(check, stderr=subprocess.DEVNULL).returncode
        finally:
            process.kill()
