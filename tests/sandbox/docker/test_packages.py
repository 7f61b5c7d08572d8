"""What of an image's packages programs may import, and that verigym in an image cannot be read."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from typing import Any

import pytest
from needs import lack

from tests.sandbox.docker.podman import IMAGE, Podman
from tests.sandbox.docker.support import docker_box
from verigym.sandbox import Program, Sandbox, SandboxFailure
from verigym.sandbox.backends import boot

pytestmark = pytest.mark.slow

PLACE = "/usr/lib/python3/dist-packages"
WITH_OURS = "localhost/verigym-test-with-verigym:latest"
SOURCE = f"""
import importlib.metadata, json, os, sys
found = {{"modules": [], "read": []}}
for name in ("pytest", "iniconfig", "beside", "verigym", "verigym.envs"):
    try:
        __import__(name)
        found["modules"].append(name)
    except ModuleNotFoundError:
        pass
for name in ("verigym/envs.py", "beside.py", "verigym-1.dist-info/METADATA"):
    try:
        open("{PLACE}/" + name).read()
        found["read"].append(name)
    except OSError:
        pass
found["named"] = sorted({{one.name for one in importlib.metadata.distributions()}} & {{"verigym", "pytest", "beside"}})
try:
    os.symlink("/etc", sys.path[-1] + "/mine")
    found["wrote"] = True
except OSError:
    found["wrote"] = False
print(json.dumps(found, sort_keys=True))
"""


@pytest.fixture(scope="module")
def image(podman: Podman) -> Iterator[str]:
    """The test image with verigym in it, and a package that nobody names."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, text in {
            "verigym/__init__.py": "",
            "verigym/envs.py": "SOLUTION = 1\n",
            "verigym-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: verigym\nVersion: 1\n",
            "beside.py": "",
            "beside-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: beside\nVersion: 1\n",
            "beside-1.dist-info/RECORD": "beside.py,,\nbeside-1.dist-info/METADATA,,\n",
        }.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text), 0o644
            tar.addfile(member, io.BytesIO(text.encode()))
    with podman.client() as client:
        made = client.api.create_container(IMAGE, ["true"])["Id"]
        client.api.put_archive(made, PLACE, archive.getvalue())
        client.api.commit(made, *WITH_OURS.split(":"))
        client.api.remove_container(made, force=True)
        yield WITH_OURS
        client.api.remove_image(WITH_OURS, force=True)


def said(box: Sandbox) -> str:
    ran = box.run(Program(source=SOURCE))
    assert ran.ok, ran
    return ran.stdout.decode().strip()


def lacks_landlock(box: Sandbox) -> bool:
    return "landlock" in box.describe()["lacks"]


def test_what_is_named_can_be_imported_and_verigym_never(podman: Podman, image: str) -> None:
    with docker_box(podman, image=image, workers=1) as box:
        if lacks_landlock(box):
            lack("elsewhere", "the kernel has no Landlock: such an image is refused, which the next test sees")
        usual = '{"modules": ["pytest", "iniconfig"], "named": ["pytest"], "read": [], "wrote": false}'
        assert said(box) == usual
        assert said(box) == usual
    with docker_box(podman, image=image, workers=1, packages=["beside"]) as box:
        assert said(box) == '{"modules": ["beside"], "named": ["beside"], "read": ["beside.py"], "wrote": false}'
    with docker_box(podman, image=image, workers=1, packages=False) as box:
        assert said(box) == '{"modules": [], "named": [], "read": [], "wrote": false}'
    for name, why in (("nowhere", "'nowhere' is not installed"), ("verigym", "programs never import verigym")):
        with docker_box(podman, image=image, workers=1, packages=[name]) as box, pytest.raises(SandboxFailure, match=why):
            box.check()


def test_without_landlock_an_image_with_verigym_is_refused(podman: Podman, image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    modules: Any = boot._modules

    def without_landlock(compiled: bool) -> tuple[dict[str, str], list[str]]:
        sources, known = modules(compiled)
        name = f"{boot.PACKAGE}.walls.landlock"
        assert not compiled
        return {**sources, name: sources[name] + "\ndef abi(): return 0\n"}, known  # as on a kernel that has none

    monkeypatch.setattr(boot, "_modules", without_landlock)
    with docker_box(podman, image=image, workers=1) as box, pytest.raises(SandboxFailure, match="use an image without it"):
        box.check()
    with docker_box(podman, workers=1) as box:
        assert lacks_landlock(box)
        for _ in range(2):  # what it wrote there shows, and the container is replaced
            found = said(box)
            assert '"modules": ["pytest", "iniconfig"]' in found and '"wrote": true' in found
