"""TLS: a board with a certificate made by openssl, the client, cookies as a browser gets them, and a proxy."""

import http.client
import os
import re
import shutil
import ssl
import subprocess
import sys
import urllib.parse

import board_trial
import pytest
import skips
from sqlalchemy import select

from fashion_infer.board import BoardSettings
from fashion_infer.board.client import Client
from fashion_infer.board.server import serve
from fashion_infer.board.store.models import AuditEntry
from fashion_infer.errors import DataError, UsageError

pytestmark = skips.needs("openssl")


def certificate(folder, name):
    """Create a self-signed certificate for localhost; return the paths of the certificate and of its key."""
    folder.mkdir(exist_ok=True)
    made = str(folder / f"{name}.pem"), str(folder / f"{name}.key")
    line = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
            "-out", made[0], "-keyout", made[1]]  # fmt: skip
    subprocess.run(line, check=True, capture_output=True)
    return made


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Two pairs of certificate and key, both for localhost."""
    folder = tmp_path_factory.mktemp("tls")
    return certificate(folder, "one"), certificate(folder, "two")


@pytest.fixture(scope="module")
def trial(pairs):
    with board_trial.trial(3, options=("--ray", "off"), seconds=0.1, tls=pairs[0]) as made:
        yield made


@pytest.fixture
def run(trial, tmp_path):
    """A function that runs `fashion-infer` as a user whose machine does not trust the test certificates."""

    def go(*words, token="", stdin=None, **more):
        names = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")
        environment = {name: value for name, value in os.environ.items() if name not in names}
        environment.update(XDG_CONFIG_HOME=str(tmp_path / "config"), HOME=str(tmp_path), **more)
        if token:
            environment["FASHION_INFER_BOARD_TOKEN"] = token
        line = [sys.executable, "-m", "fashion_infer", *words]
        return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120, input=stdin)

    return go


@pytest.fixture
def kernel(tmp_path):
    (tmp_path / "k.cu").write_text("ms=2.5")
    return str(tmp_path / "k.cu")


class TestClient:
    def test_login_saves_the_certificates_path(self, trial, run, kernel, pairs, tmp_path):
        """The path is saved as an absolute one, because users work in many folders."""
        shutil.copy(pairs[0][0], tmp_path / "board.pem")
        relative = os.path.relpath(tmp_path / "board.pem")
        done = run("board", "login", "--to", trial.url, "--ca", relative, stdin=trial.tokens["p000"])
        assert done.returncode == 0 and "p000, student of trial" in done.stderr, done.stderr
        done = run("submit", kernel)
        assert done.returncode == 0 and done.stdout.splitlines()[-1].endswith(": rank 1"), done.stdout + done.stderr
        assert run("board", "ranking").stdout.startswith("*   1        2.5000 ms")

    def test_login_does_not_retry(self, run):
        """Without an answer, `board login` ends at once, because the address may be mistyped."""
        done = run("board", "login", "--to", "https://board.invalid", stdin="token")
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (4, "", 1)  # no line about retrying

    def test_the_option_precedes_the_environment(self, trial, run, pairs):
        (right, _), (wrong, _) = pairs
        words, token = ("board", "status", "--to", trial.url), trial.tokens["p000"]
        for name in ("FASHION_INFER_BOARD_CA", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
            assert run(*words, token=token, **{name: right}).returncode == 0, name
            assert run(*words, "--ca", wrong, token=token, **{name: right}).returncode == 3, name

    def test_an_untrusted_certificate(self, trial, run, kernel, pairs):
        for more in ((), ("--ca", pairs[1][0])):
            done = run("submit", kernel, "--to", trial.url, *more, token=trial.tokens["p000"])
            assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
            assert "--ca FILE.pem" in done.stderr

    def test_a_certificate_for_another_host(self, trial, pairs):
        with pytest.raises(DataError):
            Client(trial.url.replace("localhost", "127.0.0.1"), "t", pairs[0][0], patience=10.0).me()

    def test_invalid_certificate_files(self, trial, run, kernel):
        for file in ("/no/such.pem", kernel):
            done = run("board", "status", "--to", trial.url, "--ca", file, token="t")
            assert (done.returncode, done.stderr.count("\n")) == (3, 1) and file in done.stderr

    def test_a_port_without_tls(self, pairs):
        with board_trial.trial(1, options=("--ray", "off")) as plain, pytest.raises(UsageError):
            Client(plain.url.replace("http:", "https:"), plain.tokens["p000"], pairs[0][0], patience=10.0).me()

    def test_netrc_does_not_replace_the_token(self, trial, run, tmp_path, pairs):
        """By default, requests would send the password instead."""
        (tmp_path / ".netrc").write_text("machine localhost login ann password secret\n")
        (tmp_path / ".netrc").chmod(0o600)
        done = run("board", "status", "--to", trial.url, "--ca", pairs[0][0], token=trial.tokens["p000"])
        assert done.returncode == 0 and "p000" in done.stdout, done.stderr


def sign_in(connection, token, headers=None):
    """Sign in with the page's form; return the status, the session's Set-Cookie headers and the response."""
    connection.request("GET", "/login", headers=headers or {})
    answer = connection.getresponse()
    body, gate = answer.read().decode(), answer.getheader("set-cookie").partition(";")[0]
    guard = re.search(r'name="csrf" value="([^"]+)"', body)[1]
    form = urllib.parse.urlencode({"csrf": guard, "token": token})
    kind = {"Content-Type": "application/x-www-form-urlencoded", "Cookie": gate}
    connection.request("POST", "/login", form, {**(headers or {}), **kind})
    answer = connection.getresponse()
    answer.read()
    return answer.status, [one for one in answer.headers.get_all("set-cookie") or () if "gate" not in one], answer


def audit(trial, action):
    """Return the addresses in the audit log's entries with this action."""
    store = trial.store()
    try:
        with store.read() as session:
            return list(session.scalars(select(AuditEntry.address).where(AuditEntry.action == action)))
    finally:
        store.close()


def test_cookies_and_versions_of_tls(trial, pairs):
    context = ssl.create_default_context(cafile=pairs[0][0])
    connection = http.client.HTTPSConnection("localhost", trial.port, context=context, timeout=60)
    status, (cookie,), answer = sign_in(connection, trial.tokens["p001"])
    parts = {part.strip().lower() for part in cookie.split(";")}
    assert status == 303 and cookie.startswith("__Host-board=") and {"secure", "httponly", "path=/"} <= parts
    assert not [part for part in parts if part.startswith("domain")] and "samesite=lax" in parts
    assert "max-age=31536000" in answer.getheader("strict-transport-security")
    connection.request("GET", "/mine", headers={"Cookie": cookie.partition(";")[0]})
    assert connection.getresponse().status == 200
    versions = {"-tls1_1": False, "-tls1_2": True}
    for version, taken in versions.items():
        line = ["openssl", "s_client", "-connect", f"127.0.0.1:{trial.port}", version, "-cipher", "ALL:@SECLEVEL=0"]
        done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert ("Cipher is (NONE)" not in done.stdout) == taken, version


@pytest.fixture(scope="module")
def proxied():
    """A board that trusts a proxy at the address 127.0.0.1."""
    with board_trial.trial(1, options=("--ray", "off", "--proxies", "127.0.0.1")) as made:
        yield made


HEADERS = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.9"}


class TestBehindAProxy:
    """A connection from 127.0.0.1 comes from the proxy; a connection from 127.0.0.2 comes from another client."""

    def connect(self, trial, source):
        return http.client.HTTPConnection("127.0.0.1", trial.port, timeout=60, source_address=(source, 0))

    def test_headers_of_the_proxy_are_trusted(self, proxied):
        connection = self.connect(proxied, "127.0.0.1")
        status, (cookie,), answer = sign_in(connection, proxied.tokens["p000"], HEADERS)
        assert status == 303 and "Secure" in cookie and answer.getheader("strict-transport-security")
        assert audit(proxied, "sign in") == ["203.0.113.9"]
        # The proxy appends the last entry of the header. Its client can write earlier entries, so they do not count.
        sign_in(connection, "x", {**HEADERS, "X-Forwarded-For": "192.0.2.1, 203.0.113.10"})
        assert audit(proxied, "sign in refused") == ["203.0.113.10"]

    def test_other_clients_are_refused(self, proxied):
        for source, headers in (("127.0.0.2", HEADERS), ("127.0.0.2", {}), ("127.0.0.1", {})):
            connection = self.connect(proxied, source)
            for path in ("/login", "/api/v1/me", "/"):
                connection.request("GET", path, headers=headers)
                answer = connection.getresponse()
                assert answer.status == 403 and answer.read(), (source, path)
                assert answer.getheader("strict-transport-security") is None
            connection.request("GET", "/healthz")
            assert connection.getresponse().status == 200


def test_certificates_and_keys_that_do_not_work(pairs, tmp_path, run):
    (one, key), (_, other) = pairs
    (tmp_path / "text").write_text("x")
    locked = str(tmp_path / "locked.key")
    line = ["openssl", "pkcs8", "-topk8", "-v2", "aes128", "-in", key, "-out", locked, "-passout", "pass:x"]
    subprocess.run(line, check=True, capture_output=True)
    for files in ((one, other), (str(tmp_path / "none.pem"), key), (one, str(tmp_path / "text")), (one, locked)):
        words = ("board", "serve", "--data", str(tmp_path / "data"), "--certificate", files[0], "--key", files[1])
        done = run(*words, "--ray", "off")
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1), done.stderr
        assert "--certificate" in done.stderr or "--key" in done.stderr
        assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("proxies", ["*", "", "proxy.example", "10.0.0.1,*"])
def test_invalid_proxies(proxies, tmp_path):
    """Invalid addresses of proxies are refused, in particular "*", which would trust everyone."""
    with pytest.raises(UsageError):
        serve(BoardSettings(data=str(tmp_path), proxies=proxies, ray="off"))
