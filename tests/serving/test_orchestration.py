"""What the guide shows for more machines: Ray Serve, Kubernetes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import served
import yaml

import bat_tf

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "examples" / "guides" / "serving.md").read_text("utf-8")

# In a process of its own, which Ray does not outlive.
RUN = """
import http.client, json, sys
import ray
from ray import serve

ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
import shop

serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
handle = serve.run(shop.app, name="shop", route_prefix="/")
replicas = serve.status().applications["shop"].deployments["Shop"].replica_states
texts, found = json.loads(sys.argv[2]), []
for _ in range(4):
    line = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=120)
    line.request("POST", "/", json.dumps({"instances": texts}))
    found.append(json.loads(line.getresponse().read())["predictions"])
serve.shutdown()
print("found: " + json.dumps([{str(k): v for k, v in replicas.items()}, found]))
"""


def block(start, language):
    """A block of the guide, by how it begins."""
    blocks = re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)
    return next(text for text in blocks if text.startswith(start))


@pytest.mark.slow
def test_the_ray_serve_application_answers_as_the_model_does(tmp_path):
    pytest.importorskip("ray.serve", reason="needs ray[serve]")
    folder, texts = served.folder("pages"), served.TEXTS
    code = block("import asyncio", "python")
    (tmp_path / "shop.py").write_text(code.replace("saved_models/shop/1", str(folder)))
    port = served.free_port()
    paths = os.pathsep.join(
        [str(tmp_path), str(ROOT), os.environ.get("PYTHONPATH", "")]
    )
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(port), json.dumps(texts)],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        timeout=400,
        check=True,
    )
    replicas, found = json.loads(done.stdout.rpartition("found: ")[2])
    assert list(replicas.values()) == [2]
    expected = bat_tf.load(folder).tag(texts)
    for answer in found:
        for ours, theirs in zip(expected, answer, strict=True):
            assert [(t.start, t.end, t.kind, t.text) for t in ours] == [
                (t["start"], t["end"], t["kind"], t["text"]) for t in theirs
            ]
            scores = [tag["score"] for tag in theirs]
            assert scores == pytest.approx([tag.score for tag in ours], abs=1e-5)


def test_the_manifest_has_probes_and_limits():
    documents = list(yaml.safe_load_all(block("apiVersion: apps/v1", "yaml")))
    deployment, service = documents
    pod = deployment["spec"]["template"]
    labels = pod["metadata"]["labels"]
    assert labels == deployment["spec"]["selector"]["matchLabels"]
    assert labels == service["spec"]["selector"]
    (container,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    arguments = dict(x.removeprefix("--").split("=") for x in container["args"])
    assert ports["grpc"] == int(arguments["port"])
    assert ports["rest"] == int(arguments["rest_api_port"])
    assert {port["targetPort"] for port in service["spec"]["ports"]} == set(ports)
    path = f"/v1/models/{arguments['model_name']}"
    for probe in ("startupProbe", "readinessProbe"):
        assert container[probe]["httpGet"] == {"path": path, "port": "rest"}
    assert container["livenessProbe"]["tcpSocket"]["port"] in ports
    for kind in ("requests", "limits"):
        assert set(container["resources"][kind]) == {"cpu", "memory"}
    (mount,) = container["volumeMounts"]
    assert arguments["model_base_path"].startswith(mount["mountPath"])
    assert {volume["name"] for volume in pod["spec"]["volumes"]} == {mount["name"]}
