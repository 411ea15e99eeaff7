"""The files of examples/board match the command line, and work as far as this shows without systemd and Docker."""

import configparser
import os
import re
import shlex
import subprocess
from pathlib import Path

import click
import command_line
import skips
import yaml

from fashion_infer.cli.board.store import database

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "board"
UNIT = FOLDER / "fashion-infer-board.service"
# Settings of systemd that would break the sandbox or CUDA. Comments in the unit explain why.
NOT_THESE = {"RestrictNamespaces", "ProtectControlGroups", "ProtectHostname", "ProtectKernelTunables", "ProtectProc",
             "ProtectKernelLogs", "ProcSubset", "PrivateDevices", "ProtectClock", "PrivateUsers"}  # fmt: skip


def parsed(line):
    """Parse a `fashion-infer` command line; return the command's name and its options."""
    program, *words = shlex.split(line)
    assert program.rpartition("/")[2] == "fashion-infer"
    command, context = command_line.parsed(words)
    return command.name, context.params


def unit():
    """Return the sections of the systemd unit, with continued lines joined."""
    found = configparser.ConfigParser(interpolation=None)
    found.optionxform = str
    found.read_string(UNIT.read_text(encoding="utf-8").replace("\\\n", " "))
    return found


def compose():
    return yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))


class TestUnit:
    def test_the_command_line_is_valid(self):
        service = unit()["Service"]
        name, options = parsed(service["ExecStart"])
        assert name == "serve" and options["certificate"] and options["key"]
        # The unit makes only this folder writable, and the service's home is in it.
        assert options["data"].startswith(service["ReadWritePaths"] + "/")
        assert service["ReadWritePaths"] == service["WorkingDirectory"] and service["ProtectSystem"] == "strict"
        assert service["KillMode"] == "control-group" and not NOT_THESE & set(service)

    def test_the_instructors_command_line_is_valid(self):
        line = re.search(r"sudo -u board /opt/board/bin/(fashion-infer board) \.\.\. (.*)", UNIT.read_text())
        _, options = parsed(f"{line[1]} class new x {line[2]}")
        assert options["data"] == parsed(unit()["Service"]["ExecStart"])[1]["data"]

    @skips.needs("systemd-analyze")
    def test_systemd_accepts_the_unit(self, tmp_path):
        there = tmp_path / UNIT.name
        there.write_text(UNIT.read_text().replace("/opt/board/bin/fashion-infer board serve", "/bin/true"))
        done = subprocess.run(["systemd-analyze", "verify", str(there)], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr


class TestCompose:
    def test_the_command_line_is_valid(self):
        found = compose()
        board = found["services"]["board"]
        name, options = parsed(board["command"])
        inside = [volume.split(":")[1] for volume in board["volumes"]]
        assert name == "serve" and options["data"] in inside
        assert all(os.path.dirname(options[file]) in inside for file in ("certificate", "key"))
        assert board["ports"] == [f"{options['port']}:{options['port']}"] and options["host"] == "0.0.0.0"

    def test_volumes_services_and_variables_exist(self):
        found = compose()
        context = click.Context(click.Command("x", params=[database(lambda database: None).__click_params__[0]]))
        variables = {param.envvar for param in context.command.params}
        for service in found["services"].values():
            named = {volume.split(":")[0] for volume in service["volumes"] if not volume.startswith(".")}
            assert named <= set(found["volumes"]) and set(service.get("depends_on", ())) <= set(found["services"])
        environment = found["services"]["board"]["environment"]
        assert set(environment) == variables
        url = environment["FASHION_INFER_BOARD_DATABASE"]
        there = found["services"]["database"]["environment"]
        user, host, name = re.fullmatch(r"postgresql://(\w+):\$\{POSTGRES_PASSWORD\}@(\w+)/(\w+)", url).groups()
        assert (there["POSTGRES_USER"], there["POSTGRES_DB"]) == (user, name) and host in found["services"]

    def test_the_commands_in_its_comments_are_valid(self):
        text = (FOLDER / "compose.yaml").read_text(encoding="utf-8")
        lines = re.findall(r"^# docker compose exec (?:-T )?board (.*?)(?: <.*)?$", text, re.MULTILINE)
        assert [parsed(line)[0] for line in lines] == ["new", "join"]


def test_the_image_uses_existing_extras_and_one_user():
    text = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "setup.cfg")
    (extras,) = re.findall(r"\.whl\)\[([\w,]+)\]", text)
    assert set(extras.split(",")) <= set(config["options.extras_require"])
    user = re.findall(r"^USER (\w+)$", text, re.MULTILINE)
    assert len(user) == 1 and f"useradd --create-home {user[0]}" in text
    data = parsed(compose()["services"]["board"]["command"])[1]["data"]
    assert f"mkdir {data} && chown {user[0]} {data}" in text
