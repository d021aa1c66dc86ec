"""What is built and shipped: the wheel, by itself in an empty environment, and the image that the CronJob names."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from tests.support.cli_harness import ROOT

SCHEDULES = ROOT / "jobs" / "schedules"
INSTRUCTIONS = {"FROM", "WORKDIR", "COPY", "RUN", "USER", "ENV", "VOLUME", "CMD"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built by the project's own backend, without network."""
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=300)
    (found,) = out.glob("*.whl")
    return found


def _run(program: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.defpath, "HOME": str(cwd), "XDG_STATE_HOME": str(cwd / "state")}
    return subprocess.run(
        [program, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.nightly
def test_the_wheel_has_all_that_the_package_reads_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    in_checkout = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "layton_batch").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    shipped = {f"layton_batch/manifests/{path.name}" for path in (ROOT / "manifests").glob("*.toml")}
    assert {name for name in names if ".dist-info/" not in name} == in_checkout | shipped


@pytest.mark.nightly
def test_the_wheel_in_an_empty_environment_runs_the_demo_and_the_doctor(wheel: Path, tmp_path: Path) -> None:
    """The package is the wheel's; what it depends on is this environment's, so that nothing is downloaded."""
    home = tmp_path / "environment"
    venv.create(home, with_pip=False)
    site = next((home / "lib").glob("python*/site-packages"))
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        "--ignore-installed",  # this environment's own stays what it is
        "--prefix",
        str(home),
        str(wheel),
    ]
    subprocess.run(install, check=True, capture_output=True, timeout=300)
    (site / "dependencies.pth").write_text("\n".join(_dependencies()))
    python = home / "bin" / "python"
    where = _run(python, "-c", "import layton_batch; print(layton_batch.__file__)", cwd=tmp_path)
    assert where.stdout.startswith(str(site)), where.stderr
    program = home / "bin" / "layton-batch"
    shown = _run(python, str(program), "demo", "--out", "shown", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "Leaderboard" in shown.stdout
    looked = _run(python, str(program), "check", "--offline", cwd=tmp_path)
    assert "Traceback" not in looked.stderr
    assert looked.returncode in (0, 2), looked.stderr  # 2: there is no key here, which it says
    assert "keys" in looked.stdout


def _dependencies() -> list[str]:
    """Folders of installed packages, without a checkout's own: a ``.pth`` in another environment leads no further."""
    own = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    return list(dict.fromkeys([*own, *(path for path in sys.path if path.endswith("site-packages"))]))


# ---- the image -----------------------------------------------------------------------------------------------------


def _instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, lines that go on joined."""
    text = (SCHEDULES / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines())]


def test_the_dockerfile_has_known_instructions_a_fixed_base_and_a_user_of_its_own() -> None:
    found = _instructions()
    assert {word for word, _ in found} <= INSTRUCTIONS
    bases = [rest.split()[0] for word, rest in found if word == "FROM"]
    assert all(re.fullmatch(r"python:3\.\d+-slim", base) for base in bases)
    (user,) = [rest for word, rest in found if word == "USER"]
    assert user != "0"
    assert f"useradd --uid {user} " in " ".join(rest for word, rest in found if word == "RUN")


def test_what_the_dockerfile_copies_makes_the_wheel_is_there_and_not_ignored() -> None:
    ignored = (SCHEDULES / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignored
    files = [rest.split()[:-1] for word, rest in _instructions() if word == "COPY" and "--from" not in rest]
    copied = {name for names in files for name in names}
    about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {about["readme"], *about["license-files"], "layton_batch", "manifests", "pyproject.toml"} <= copied
    for name in copied:
        assert (ROOT / name).exists(), name
        assert f"!{name}" in ignored
    assert not [line for line in ignored if line.startswith("!") and not (ROOT / line[1:]).exists()]


def test_the_cronjob_runs_what_the_image_has_as_the_images_user_on_its_volume() -> None:
    job = (SCHEDULES / "cronjob.yaml").read_text(encoding="utf-8")
    dockerfile = (SCHEDULES / "Dockerfile").read_text(encoding="utf-8")
    image = re.search(r"image: (\S+)", job)
    user = re.search(r"runAsUser: (\d+)", job)
    command = re.search(r'command: \["sh", "-c", "(.*)"\]', job)
    assert image is not None
    assert user is not None
    assert command is not None
    assert f"docker build -f jobs/schedules/Dockerfile -t {image[1]} ." in dockerfile
    assert ("USER", user[1]) in _instructions()
    program = shlex.split(command[1])[0]
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert program in scripts
    assert ("VOLUME", "/runs") in _instructions()
    assert "mountPath: /runs" in job
