"""One question to a server over HTTP, with every way in which it can go wrong said. Answers are bounded."""

from __future__ import annotations

import base64
import http.client
import netrc
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote, urlencode, urlsplit

from whyidle.errors import WhyIdleError
from whyidle.fetch.base import ENCODED, shown

LARGEST: Final = 32 << 20  # bytes of one answer
SAID: Final = 1 << 16  # bytes of an error page that are looked at
PIECE: Final = 1 << 18


class TooMuchError(WhyIdleError):
    """The answer is larger than we take, or than the server gives."""


class RefusedError(WhyIdleError):
    """The server answers, and says no: `code` as HTTP counts, `body` what it says."""

    def __init__(self, message: str, hint: str, code: int, body: bytes) -> None:
        super().__init__(message, hint)
        self.code, self.body = code, body


class _Stay(urllib.request.HTTPRedirectHandler):
    """Goes nowhere else: only what a person named is asked, and it alone gets a password."""

    def redirect_request(self, *_: object) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Server:
    """Who is asked: "http://host:9090/prefix", and what it is shown."""

    base: str
    authorization: str = ""
    connect_s: float = 30.0  # without a byte
    whole_s: float = 120.0  # for all of an answer

    @classmethod
    def of(cls, url: str) -> Server:
        """Return the server of a URL; user and password are the URL's own, else those of ~/.netrc for that host.

        Raises:
            WhyIdleError: there is no host, or no such port.
        """
        parts = urlsplit(url)
        try:
            host, port = parts.hostname, parts.port
        except ValueError:  # it tells what should be a port, and may be a password
            raise WhyIdleError(f"{shown(url)}: the port is no number from 0 to 65535", ENCODED) from None
        if not host:
            raise WhyIdleError(f"{shown(url)}: no host is named", f"{parts.scheme}://localhost:9090/")
        place = f"[{host}]" if ":" in host else host
        base = f"{parts.scheme}://{place}{'' if port is None else f':{port}'}{quote(parts.path.rstrip('/'), '/%')}"
        user, password = _login(host)
        if parts.username is not None:
            user, password = unquote(parts.username), unquote(parts.password or "")
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        return cls(base, f"Basic {token}" if user or password else "")

    def ask(self, path: str, asked: dict[str, str]) -> bytes:
        """Return the answer to a GET.

        Raises:
            TooMuchError: it is larger than LARGEST.
            RefusedError: the server said no.
            WhyIdleError: it does not answer, or not in time.
        """
        request = urllib.request.Request(f"{self.base}{path}?{urlencode(asked)}")  # noqa: S310 - http(s), by schemes
        if self.authorization:
            request.add_unredirected_header("Authorization", self.authorization)
        hint = f"curl {self.base}{path}"
        try:
            with urllib.request.build_opener(_Stay).open(request, timeout=self.connect_s) as answer:
                return self._body(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(error) from None
        except TimeoutError:
            raise WhyIdleError(f"{self.base} does not answer within {self.connect_s:g} s", hint) from None
        except http.client.HTTPException as error:
            raise WhyIdleError(f"{self.base} breaks off, or does not speak HTTP: {_told(error)}", hint) from None
        except OSError as error:  # a URLError is one
            reason = getattr(error, "reason", None) or error
            if isinstance(reason, TimeoutError):
                raise WhyIdleError(f"{self.base} does not answer within {self.connect_s:g} s", hint) from None
            raise WhyIdleError(f"{self.base} cannot be reached: {_told(reason)}", hint) from None

    def _body(self, answer: http.client.HTTPResponse) -> bytes:
        began, pieces, size = time.monotonic(), [], 0
        while piece := answer.read(PIECE):
            size += len(piece)
            if size > LARGEST:
                raise TooMuchError(f"{self.base} answers with more than {LARGEST >> 20} MiB at once")
            if time.monotonic() - began > self.whole_s:
                raise WhyIdleError(f"{self.base} has sent {size:,} bytes in {self.whole_s:g} s, and is not done")
            pieces.append(piece)
        return b"".join(pieces)

    def _refused(self, error: urllib.error.HTTPError) -> RefusedError:
        try:
            body = error.read(SAID)
        except (OSError, http.client.HTTPException):
            body = b""
        what, hint = f"{self.base} answers {error.code} {error.reason}", ""
        if error.code in {401, 403}:
            hint = "put USER:PASSWORD@ before the host, or both into ~/.netrc"
        elif 300 <= error.code < 400:
            to = shown(str(error.headers.get("Location", "")))
            what, hint = f"{what}: it sends us to {to or 'nowhere'}", "give the address that it leads to"
        elif error.code == 404:
            hint = "does it live below a path? http://host:9090/prometheus/ needs that path in the address"
        return RefusedError(what, hint, error.code, body)


def _login(host: str) -> tuple[str, str]:
    """Return what ~/.netrc has for this very host; its default is for no host in particular, and stays unused."""
    try:
        user, _, password = netrc.netrc().hosts[host]
    except (OSError, KeyError, netrc.NetrcParseError):
        return "", ""
    return user, password


def _told(error: object) -> str:
    return str(getattr(error, "strerror", None) or error) or type(error).__name__
