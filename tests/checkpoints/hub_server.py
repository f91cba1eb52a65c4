"""A hub on this machine: answers as the real one does for the few requests that are made of it."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@contextmanager
def hub_with(repositories: dict[str, Path]) -> Iterator[tuple[str, list[str]]]:
    """Serve folders as hub ids; yields the endpoint and the requests made so far (`METHOD file bytes`)."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def _answer(self, *, with_body: bool) -> None:
            path = self.path.partition("?")[0]
            match = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/([^/]+))?", path)
            if match and match.group(1) in repositories:
                folder = repositories[match.group(1)]
                files = [{"rfilename": file.name} for file in sorted(folder.iterdir())]
                body = json.dumps({"id": match.group(1), "sha": COMMIT, "siblings": files}).encode()
                self._send(200, body, with_body=with_body)
                return
            match = re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/[^/]+", path)
            if match and match.group(1) in repositories:
                folder = repositories[match.group(1)]
                tree = [
                    {"type": "file", "path": file.name, "size": file.stat().st_size, "oid": "0" * 40}
                    for file in sorted(folder.iterdir())
                ]
                self._send(200, json.dumps(tree).encode(), with_body=with_body)
                return
            match = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
            file = (
                repositories[match.group(1)] / match.group(3)
                if match and match.group(1) in repositories
                else None
            )
            if file is not None and file.is_file():
                self._send_file(file, with_body=with_body)
                return
            requests.append(f"{self.command} {path} missing")
            self._send(404, b"{}", with_body=with_body, code="EntryNotFound" if file else "RepoNotFound")

        def _send_file(self, file: Path, *, with_body: bool) -> None:
            size = file.stat().st_size
            wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            first, last = (int(item) for item in wanted.groups()) if wanted else (0, size - 1)
            last = min(last, size - 1)
            with file.open("rb") as stream:
                stream.seek(first)
                body = stream.read(last - first + 1) if with_body else b""
            requests.append(f"{self.command} {file.name} {len(body)}")
            self.send_response(206 if wanted else 200)
            if wanted:
                self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
            self.send_header("Content-Length", str(last - first + 1))
            self.send_header("ETag", f'"{hashlib.sha256(file.name.encode()).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.end_headers()
            self.wfile.write(body)

        def _send(self, status: int, body: bytes, *, with_body: bool, code: str = "") -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            if code:
                self.send_header("X-Error-Code", code)
            self.end_headers()
            if with_body:
                self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
