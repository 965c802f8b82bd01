"""A small internet on this machine: host names with public addresses, which lead to listeners of our own.

Everything happens below the code that is tested: in the resolver, and where a socket is connected. No connection leaves
this machine, and `Internet.connected` has the address of each that was tried.
"""

from __future__ import annotations

import datetime
import http.server
import ipaddress
import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOST = "client.example"
ADDRESS = "203.0.114.7"
"""A public address, which nothing on this machine has."""


@dataclass
class Internet:
    """What the resolver answers, and where connections were made to.

    :param answers: The addresses of each name; a list of lists is answered one after the other.
    :param port: Where the listener for `ADDRESS` is on this machine.
    """

    port: int
    answers: dict[str, list[Any]] = field(default_factory=lambda: {HOST: [ADDRESS]})
    connected: list[str] = field(default_factory=list)

    def install(self, replace: Any = setattr) -> None:
        """Put it in place of the resolver and of outgoing connections.

        :param replace: ``monkeypatch.setattr``, or ``setattr`` for a process of its own.
        """
        resolve, connect = socket.getaddrinfo, socket.create_connection

        def getaddrinfo(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
            answers = self.answers.get(str(host))
            if answers is None:
                return resolve(host, port, *args, **kwargs)
            if answers and isinstance(answers[0], list):
                answers = answers.pop(0) if len(answers) > 1 else answers[0]
            return [
                (socket.AF_INET6 if ":" in each else socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port))
                for each in answers
            ]

        def create_connection(address: Any, *args: Any, **kwargs: Any) -> Any:
            self.connected.append(address[0])
            if address[0] == ADDRESS:
                return connect(("127.0.0.1", self.port), *args, **kwargs)
            if ipaddress.ip_address(address[0]).is_global:
                raise ConnectionRefusedError
            return connect(address, *args, **kwargs)

        replace(socket, "getaddrinfo", getaddrinfo)
        replace(socket, "create_connection", create_connection)


@dataclass
class Documents:
    """An https server with documents of clients, by path. A text or bytes is sent as it is, a function is called."""

    port: int
    documents: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    status: int = 200
    requested: list[str] = field(default_factory=list)

    def publish(self, path: str, **members: Any) -> str:
        """Publish the document of a client, and return its id."""
        client_id = f"https://{HOST}{path}"
        redirect_uris = ["http://127.0.0.1:3030/callback"]
        self.documents[path] = {
            "client_id": client_id,
            "client_name": "Claude",
            "redirect_uris": redirect_uris,
            "token_endpoint_auth_method": "none",
            **members,
        }
        return client_id


@contextmanager
def serving_documents(folder: Path) -> Iterator[Documents]:
    """Serve documents at ``https://client.example``, with a certificate that ``folder / "ca.pem"`` vouches for."""
    certificate = make_certificate(folder)

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            running.requested.append(f"{self.headers['Host']}{self.path}")
            document = running.documents.get(self.path)
            self.send_response(running.status if document is not None else 404)
            for name, value in running.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if callable(document):
                document(self.wfile)
            else:
                self.wfile.write(document if isinstance(document, bytes) else json.dumps(document).encode())

        def log_message(self, *args: Any) -> None: ...

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, *args: Any) -> None: ...  # the client has left

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with Server(("127.0.0.1", 0), Answer) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        running = Documents(server.server_port)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield running
        finally:
            server.shutdown()
            thread.join()


def make_certificate(folder: Path) -> Path:
    """Make a certificate for the host, signed by itself, and return the file with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.datetime.fromtimestamp(time.time(), datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "ca.pem").write_bytes(pem)
    both = folder / "certificate.pem"
    both.write_bytes(pem + secret)
    return both


def install_from_environment() -> None:
    """For an app in a process of its own: ``DOCUMENTS_PORT`` is where its internet ends."""
    if "DOCUMENTS_PORT" in os.environ:
        Internet(int(os.environ["DOCUMENTS_PORT"])).install()
