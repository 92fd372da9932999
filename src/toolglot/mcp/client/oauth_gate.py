"""Decides where signing in may lead: a server that is not trusted names the addresses of all steps.

Invariants: nothing is sent before the address is checked, and the connection goes to the address that was
checked. Without a person, nothing is requested but new tokens for a sign-in that a person has finished.

A server names https addresses on the public internet. A server in a private network may name others there,
and one on this machine others on this machine, with http, too. No server may name link-local addresses, such
as those of cloud metadata.
"""

from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Literal
from urllib.parse import parse_qs, urlsplit
from urllib.request import getproxies, proxy_bypass

from toolglot.confine.web_address import AddressGuard, Resolver, Site, is_public, parse_site, resolve_name
from toolglot.errors import ToolError, UsageError

if TYPE_CHECKING:
    import httpx2

__all__ = ["DIRECT_HOSTS", "OAuthGate", "Place"]

Place = Literal["loopback", "private", "public"]
"""Where a server is."""
DIRECT_HOSTS = ("localhost", "*.localhost", "127.0.0.1", "[::1]")
"""This machine: never reached through a proxy, which would see headers that are meant for here."""
_LOOPBACK = ("127.0.0.0/8", "::1/128")
_PRIVATE = ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
_REACHABLE: dict[Place, tuple[str, ...]] = {
    "loopback": (*_LOOPBACK, *_PRIVATE),
    "private": _PRIVATE,
    "public": (),
}
_ORDER: tuple[Place, ...] = ("loopback", "private", "public")
_HINT = "only a server in that network may name it"
_CHECKED_URL = "toolglot.checked_url"


class OAuthGate:
    """The gate for one server's sign-in. `has_person`: somebody is there who can sign in."""

    def __init__(self, name: str, url: str, *, has_person: bool, resolve: Resolver = resolve_name) -> None:
        self._name = name
        self._site = _parse_origin(url)
        self._has_person = has_person
        self._resolve = resolve
        self.place: Place | None = None
        """Where the server has been; None: unknown, which counts as public."""

    def note_response(self, response: "httpx2.Response") -> None:
        """Note where the server is, by the connection over which it responded: its name may resolve to
        anything.
        """
        request = response.request
        if (url := request.extensions.get(_CHECKED_URL)) is not None:
            request.url = url  # relative redirects refer to it
        if _parse_origin(str(request.url)) != self._site:
            return
        stream = response.extensions.get("network_stream")
        peer = None if stream is None or _uses_proxy(self._site) else stream.get_extra_info("server_addr")
        place: Place = _find_place(str(peer[0])) if peer else "public"
        # moving into a private network gains nothing
        if self.place is None or _ORDER.index(place) > _ORDER.index(self.place):
            self.place = place

    async def check_request(self, request: "httpx2.Request") -> None:
        """Check a request of a sign-in, and let it go to the address that was checked. Raises UsageError."""
        if not self._has_person and not _is_refresh(request):
            raise UsageError(
                f"{self._name} requires you to sign in; run this in a terminal: toolglot mcp test "
                f"{self._name}; "
                "if it expects a token instead, set it in the Authorization header"
            )
        addresses = await self.check_address(str(request.url))
        site = _parse_origin(str(request.url))
        if addresses and not _uses_proxy(site):  # a proxy resolves the name itself
            request.extensions = {**request.extensions, "sni_hostname": site.host, _CHECKED_URL: request.url}
            request.url = request.url.copy_with(host=addresses[0])

    async def check_address(self, url: str) -> list[str]:
        """Return the addresses to which a URL that the server names may lead; none if it is its own.

        Raises UsageError.
        """
        guard = AddressGuard(_REACHABLE[self.place or "public"], self._resolve, _HINT)
        try:
            site = parse_site(url)
            if site == self._site:
                return []
            addresses = await guard.resolve_allowed(site.host, site.port)
        except ToolError as e:
            raise UsageError(
                f"signing in to {self._name} is refused, because it leads elsewhere: {e}"
            ) from None
        if site.scheme != "https" and any(is_public(ip_address(address)) for address in addresses):
            raise UsageError(
                f"signing in to {self._name} is refused, because it leads to {site} without https"
            )
        return addresses


def _parse_origin(url: str) -> Site:
    """Return where a URL leads, without any check."""
    parts = urlsplit(url)
    return Site(
        parts.scheme.lower(),
        (parts.hostname or "").rstrip("."),
        parts.port or (443 if parts.scheme == "https" else 80),
    )


def _find_place(address: str) -> Place:
    """Return where an address is; one that is neither on this machine nor in a private network counts as
    public.
    """
    with suppress(ValueError):
        number = ip_address(address.partition("%")[0])
        plain = getattr(number, "ipv4_mapped", None) or number
        if _is_within(plain, _LOOPBACK):
            return "loopback"
        if _is_within(plain, _PRIVATE):
            return "private"
    return "public"


def _is_within(address: IPv4Address | IPv6Address, networks: Iterable[str]) -> bool:
    return any(address in ip_network(network) for network in networks)


def _uses_proxy(site: Site) -> bool:
    """Whether requests go through a proxy that the environment names, for this scheme or for all."""
    if site.host in ("localhost", "127.0.0.1", "::1") or site.host.endswith(".localhost"):
        return False  # DIRECT_HOSTS
    return not {site.scheme, "all"}.isdisjoint(getproxies()) and not proxy_bypass(site.host)


def _is_refresh(request: "httpx2.Request") -> bool:
    """Whether a request is for new tokens with those that a sign-in has led to."""
    if request.method != "POST":
        return False
    return parse_qs(request.content.decode("latin-1")).get("grant_type") == ["refresh_token"]
