"""What ``examples/kubernetes`` says is so: YAML that Kubernetes takes, commands that there are, an image that works."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer
import yaml
from mixedmode.planner.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "kubernetes"
STATEFULSET = yaml.safe_load((FOLDER / "statefulset.yaml").read_text())
APPLICATION = yaml.safe_load((FOLDER / "sparkapplication.yaml").read_text())
DOCKERFILE = (FOLDER / "Dockerfile").read_text().replace("\\\n", " ")


def containers(body: Any) -> list[dict[str, Any]]:
    """All containers in a description, wherever they are."""
    if isinstance(body, list):
        return [found for one in body for found in containers(one)]
    if not isinstance(body, dict):
        return []
    return [*body.get("containers", []), *(found for one in body.values() for found in containers(one))]


def test_kubernetes_takes_the_descriptions() -> None:
    """By its own schemas, strictly: nothing is unknown.  Of a SparkApplication those of its pods."""
    kubernetes_validate.validate(STATEFULSET, kubernetes_validate.latest_version(), strict=True)
    assert (APPLICATION["apiVersion"], APPLICATION["kind"]) == ("sparkoperator.k8s.io/v1beta2", "SparkApplication")
    for role in ("driver", "executor"):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": role}, **APPLICATION["spec"][role]["template"]}
        kubernetes_validate.validate(pod, kubernetes_validate.latest_version(), strict=True)
    broken = json.loads(json.dumps(STATEFULSET).replace("livenessProbe", "livelinessProbe"))
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, kubernetes_validate.latest_version(), strict=True)


def test_probes_ask_what_the_command_line_knows() -> None:
    """Each probe is a command of ours with options that it has, about the location that the job is given."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    asked = 0
    for container in [*containers(STATEFULSET), *containers(APPLICATION)]:
        places = {one["name"]: one.get("value") for one in container.get("env", [])}
        for name in ("startupProbe", "livenessProbe"):
            if name in container:
                program, command, location, *options = container[name]["exec"]["command"]
                assert program == "mixedmode" and location == places["LOCATION"]
                known = {text for one in commands[command].params for text in one.opts}
                assert {text for text in options if text.startswith("--")} <= known
                asked += 1
    assert asked == 3


def test_job_is_given_what_it_asks_for() -> None:
    """The environment of each driver has all places that the job reads, and the image what the description starts."""
    wanted = set(re.findall(r'os\.environ\["(\w+)"\]', (FOLDER / "job.py").read_text()))
    assert len(wanted) == 4
    drivers = [one for one in [*containers(STATEFULSET), *containers(APPLICATION)] if "env" in one]
    assert len(drivers) == 2
    for driver in drivers:
        assert wanted <= {one["name"] for one in driver["env"]}
    copied = dict(re.findall(r"^COPY (\S+) (\S+)$", DOCKERFILE, re.MULTILINE))
    assert copied.pop("dist/") == "/tmp/dist/"
    assert all((ROOT / source).is_file() for source in copied)
    started = [APPLICATION["spec"]["mainApplicationFile"].removeprefix("local://")]
    started += [
        word for word in json.loads(re.findall(r"^ENTRYPOINT (.*)$", DOCKERFILE, re.MULTILINE)[0]) if "/" in word
    ]
    assert set(started) == set(copied.values())
    user = re.findall(r"^USER (\d+)$", DOCKERFILE, re.MULTILINE)
    assert set(user) == {str(STATEFULSET["spec"]["template"]["spec"]["securityContext"]["runAsUser"])}
